"""Membership inference: guess from released models whose records they were trained on.

A second look that knows nothing of the proofs. Many models are trained, each on a random half of a
pool of made-up records. Half of the models are the attacker's examples, of which it knows the
members; of the other half it guesses for every record whether a model has seen it: by the loss
alone, and by the likelihood-ratio attack of Carlini et al. (2022). Replacing a member by another
record turns one case into the other, so (ε, δ) bounds every such guess.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import checks
from ppadmm.accounting import Budget, Tally
from ppadmm.algorithms import Settings, Site, recipe_named
from ppadmm.arrays import Array
from ppadmm.auditing.statistics import Claim
from ppadmm.data import Shard, normalise_rows
from ppadmm.engines import local
from ppadmm.noise import NoiseSource, SecureNoise, SeededNoise
from ppadmm.problem import Logistic, risk_of
from ppadmm.runs.federation import make_agents
from ppadmm.runs.metrics import area_under_curve

POOL, FEATURES, AGENTS = 120, 60, 2
MODELS = 64
FPR = 0.01
ERRORS = 3.3
"""Standard errors that a figure must lie above what is allowed before it counts: 99.9 %."""
RESAMPLES = 200
NO_NOISE: dict[str, Any] = {"rounds": 60, "eta": (0.002,), "beta": 1e-8}
WITH_NOISE: dict[str, Any] = {"rounds": 10, "eta": (0.5,), "beta": 1e-8}


@dataclass(frozen=True)
class Membership:
    """How well an attack does, with standard errors over models, and what the claim allows.

    Without a claim (a run without noise) everything is allowed: 1.
    """

    algorithm: str
    epsilon: float | None
    attack: str
    models: int
    auc: float
    auc_error: float
    auc_allowed: float
    tpr: float
    tpr_error: float
    tpr_allowed: float

    @property
    def exceeded(self) -> bool:
        """Whether the attack does better than the claim allows, beyond doubt."""
        return (
            self.auc - ERRORS * self.auc_error > self.auc_allowed
            or self.tpr - ERRORS * self.tpr_error > self.tpr_allowed
        )

    @property
    def passed(self) -> bool:
        """Whether the guesses are consistent with the claim."""
        return not self.exceeded

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, fit for JSON."""
        return {**vars(self), "fpr": FPR, "passed": self.passed}


@dataclass(frozen=True)
class _Pool:
    """Records X (P, d) with labels y (P,), and who is a member of which model, (M, P)."""

    X: Array
    y: Array
    members: NDArray[np.bool_]


def membership(
    algorithm: str = "pp",
    epsilon: float = 4.0,
    delta: float = 1e-5,
    models: int = MODELS,
    seed: int = 0,
    secure: bool = False,
) -> list[Membership]:
    """Train models on random halves of a pool: as many to learn from as to attack."""
    checks.count("models", models, at_least=8)
    pool = _pool(2 * models, seed)
    budget = Budget(epsilon, delta)
    trained = [_train(pool, m, algorithm, budget, seed, secure) for m in range(2 * models)]
    margins = pool.y * (np.stack([model for model, _ in trained]) @ pool.X.T)
    private = not recipe_named(algorithm).noiseless
    claim = Claim.of(trained[0][1]) if private else None
    shadows, known = margins[:models], pool.members[:models]
    margins, members = margins[models:], pool.members[models:]
    scores = {"loss": margins, "likelihood ratio": likelihood_ratios(margins, shadows, known)}
    return [
        _judge(algorithm, epsilon if private else None, name, score, members, claim)
        for name, score in scores.items()
    ]


def _pool(models: int, seed: int) -> _Pool:
    """Draw records from a logistic model, and a random half of them for every model.

    Record j is agent j mod N's: taking one out for another changes one record of one agent.
    """
    rng = np.random.default_rng(seed)
    X = np.asarray(normalise_rows(rng.standard_normal((POOL, FEATURES))))
    direction = rng.standard_normal(FEATURES)
    y = np.where(X @ direction + 0.5 * rng.logistic(size=POOL) > 0.0, 1.0, -1.0)
    members = np.zeros((models, POOL), dtype=bool)
    for row in members:
        for agent in range(AGENTS):
            own = np.arange(agent, POOL, AGENTS)
            row[rng.permutation(own)[: len(own) // 2]] = True
    return _Pool(X, y, members)


def _train(
    pool: _Pool, m: int, algorithm: str, budget: Budget, seed: int, secure: bool
) -> tuple[Array, Tally]:
    """Run one model through real agents; return it with what an agent reserved."""
    plain = recipe_named(algorithm).noiseless
    settings = Settings(
        regularisation=(1e-3,), budgets=(budget,), **(NO_NOISE if plain else WITH_NOISE)
    )
    noise: NoiseSource = SecureNoise() if secure else SeededNoise((1000 * seed + m,))
    agents = make_agents(algorithm, _sites(pool, m), [settings] * AGENTS, noise, capped=not plain)
    model = local.run(agents).model()[0]
    return model, agents[0].ledgers[0].reserved


def _sites(pool: _Pool, m: int) -> list[Site]:
    held = np.flatnonzero(pool.members[m])
    parts = [held[held % AGENTS == agent] for agent in range(AGENTS)]
    shards = [Shard(pool.X[part], pool.y[part]) for part in parts]
    return [
        Site(i, AGENTS, (1 - i,), risk_of(shard, Logistic()), (1,))
        for i, shard in enumerate(shards)
    ]


def likelihood_ratios(margins: Array, shadows: Array, members: NDArray[np.bool_]) -> Array:
    """LiRA: how much better a margin fits the models that saw the record; (M, P) → (M, P).

    The normal laws of a record's margin, seen and not seen, are fitted on the `shadows` (S, P).
    """
    inside, outside = _fit(shadows, members), _fit(shadows, ~members)
    return np.asarray(_log_normal(margins, *inside) - _log_normal(margins, *outside))


def _fit(margins: Array, chosen: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return mean and standard deviation over the chosen models, (P,)."""
    count = np.maximum(chosen.sum(axis=0), 1)
    mean = (margins * chosen).sum(axis=0) / count
    variance = ((margins - mean) ** 2 * chosen).sum(axis=0) / count
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _log_normal(x: Array, mean: Array, scale: Array) -> Array:
    return np.asarray(-0.5 * ((x - mean) / scale) ** 2 - np.log(scale))


def _judge(
    algorithm: str,
    epsilon: float | None,
    attack: str,
    scores: Array,
    members: NDArray[np.bool_],
    claim: Claim | None,
) -> Membership:
    figures = _figures(scores, members)
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, len(scores), len(scores)) for _ in range(RESAMPLES)]
    errors = np.std([_figures(scores[k], members[k]) for k in rows], axis=0)
    return Membership(
        algorithm=algorithm,
        epsilon=epsilon,
        attack=attack,
        models=len(scores),
        auc=figures[0],
        auc_error=float(errors[0]),
        auc_allowed=1.0 if claim is None else largest_auc(claim),
        tpr=figures[1],
        tpr_error=float(errors[1]),
        tpr_allowed=1.0 if claim is None else float(claim.power(np.array(FPR))),
    )


def _figures(scores: Array, members: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the area under the curve and the TPR at an FPR of 1 %, over all guesses."""
    signs = np.where(members.ravel(), 1.0, -1.0)
    area = float(area_under_curve(scores.reshape(-1, 1), signs)[0])
    level = np.quantile(scores[~members], 1.0 - FPR, method="higher")
    return area, float((scores[members] > level).mean())


def largest_auc(claim: Claim) -> float:
    """Return the area under the largest curve that the claim allows, rounded up."""
    fpr = np.linspace(0.0, 1.0, 2001)
    return float(claim.power(fpr)[1:].mean()) if math.isfinite(claim.epsilons.min()) else 1.0
