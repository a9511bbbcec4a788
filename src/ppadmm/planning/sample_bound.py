"""Worst-case bounds on the expected loss, with explicit constants, part by part.

A reference classifier has norm ≤ R. With probability ≥ 1 − ζ over records and noise, the expected
loss of the trained model exceeds the reference's by at most (docs/sample-size.md has the proofs)

    regularisation   ω·Λ·R²/2                                              Λ = λ̂/N
    + estimation     ω·[2x·G²/(ΛM) + G·R·√(2 ln(1/ζ₁)/M)]                  M = N·n records
    + convergence    G²/(2ηaT) + η·b̄·R²/T                                  T rounds on the network
    + noise          what σ₁ and σ₂ add
    + solver         what the residual β adds,

with x the root of √x·e^{−(x−1)/2} = ζ₂, b̄ the mean degree, a the network's algebraic connectivity,
and ω = 1/(2−φ): a fraction φ of the regulariser's curvature is spent on the noise. Theorem 1 is
the pooled minimiser without noise (φ = 0, the first two parts), Theorem 2 is T rounds of PP-ADMM,
averaged over all rounds and agents. Both hold for every Λ, η and φ.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from ppadmm import checks
from ppadmm.accounting import ADJACENCIES, Budget
from ppadmm.algorithms.settings import MAX_ROUNDS
from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.problem import Graph, Logistic, Loss, graph_from, loss_named


@dataclass(frozen=True)
class BoundSetting:
    """What is public about a run, for a question about its size.

    `rounds` None is the exact minimiser on the pooled records; `budget` None is no noise.
    `regularisation` (λ̂) and `eta` are chosen where they are None.
    """

    features: int
    graph: Graph
    norm: float = 10.0
    confidence: float = 0.95
    rounds: int | None = None
    budget: Budget | None = None
    regularisation: float | None = None
    eta: float | None = None
    beta: float = 1e-8
    share: float = 1e-3
    adjacency: str = "replace-one"
    loss: Loss = field(default_factory=Logistic)

    def __post_init__(self) -> None:
        checks.count("features", self.features)
        checks.positive("norm", self.norm)
        checks.probability("confidence", self.confidence)
        checks.probability("beta", self.beta)
        checks.probability("share", self.share)
        checks.one_of("adjacency", self.adjacency, ADJACENCIES)
        for name in ("regularisation", "eta"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        if self.rounds is not None:
            checks.count("rounds", self.rounds, at_most=MAX_ROUNDS)
        elif self.budget is not None:
            raise InputError("Expected a number of rounds with a privacy budget, got none.")

    @classmethod
    def of(
        cls,
        features: int,
        agents: int = 5,
        graph: str = "erdos-renyi",
        loss: str | None = None,
        **given: Any,
    ) -> "BoundSetting":
        """Return a setting from names; None takes the default.

        `graph` is a kind of network, drawn once if it is random, or a file of edges; `given` are
        the other fields.
        """
        checks.count("agents of a network", agents, at_least=2)
        known = {name: value for name, value in given.items() if value is not None}
        if loss is not None:
            known["loss"] = loss_named(loss)
        return cls(features=features, graph=graph_from(graph, agents), **known)

    @property
    def agents(self) -> int:
        """N."""
        return self.graph.size

    @property
    def mean_degree(self) -> float:
        """b̄ = 2|E|/N."""
        return 2.0 * len(self.graph.edges) / self.agents

    @cached_property
    def degrees(self) -> Counter[int]:
        """How many agents have each number of neighbours."""
        return Counter(self.graph.degrees)

    @cached_property
    def connectivity(self) -> float:
        """a, the network's algebraic connectivity."""
        return connectivity(self.graph)


@dataclass(frozen=True)
class Parts:
    """The bound, split by what causes each part."""

    regularisation: float
    estimation: float
    convergence: float = 0.0
    noise: float = 0.0
    solver: float = 0.0

    @property
    def total(self) -> float:
        """The bound."""
        return math.fsum(asdict(self).values())


@dataclass(frozen=True)
class Choice:
    """Λ = λ̂/N, η and the fraction φ of the curvature that is spent on the noise."""

    weight: float
    eta: float = 0.0
    phi: float = 0.0

    @property
    def omega(self) -> float:
        """ω = 1/(2−φ)."""
        return 1.0 / (2.0 - self.phi)

    def mu(self, degree: int) -> float:
        """λ̂/N + 2η|B|."""
        return self.weight + 2.0 * self.eta * degree


Scales: TypeAlias = dict[int, tuple[float, float]]
"""(σ₁, σ₂) by number of neighbours."""
QUIET = (0.0, 0.0)


def connectivity(graph: Graph) -> float:
    """Return the second smallest eigenvalue of the Laplacian; 0 < a for a connected network."""
    laplacian = np.diag([float(k) for k in graph.degrees])
    for i, j in graph.edges:
        laplacian[i, j] = laplacian[j, i] = -1.0
    return float(np.linalg.eigvalsh(laplacian)[1])


@lru_cache(maxsize=256)
def chi_square_tail(zeta: float) -> float:
    """Return the x ≥ 1 with √x·e^{−(x−1)/2} = ζ, rounded up (Lemma 3)."""
    log = math.log(zeta)
    root = brentq(lambda x: (math.log(x) - x + 1.0) / 2.0 - log, 1.0, 4.0 - 4.0 * log)
    return float(root) * (1.0 + 1e-9)


def statistical_parts(n: int, setting: BoundSetting, choice: Choice, zetas: Array) -> Parts:
    """Return regularisation and estimation (Theorem 1) at confidences ζ₁ and ζ₂."""
    G, R, M = setting.loss.lipschitz, setting.norm, n * setting.agents
    uniform = 2.0 * chi_square_tail(float(zetas[1])) * G * G / (choice.weight * M)
    single = G * R * math.sqrt(-2.0 * math.log(zetas[0]) / M)
    return Parts(
        regularisation=choice.omega * choice.weight * R * R / 2.0,
        estimation=choice.omega * (uniform + single),
    )


def noise_part(setting: BoundSetting, choice: Choice, scales: Scales, zetas: Array) -> float:
    """Return what both noises add (Theorem 2), at confidences ζ₃ (martingale) and ζ₄, ζ₅ (norms).

    (1/N) Σᵢ [(1+ψΛ/μᵢ)·B²/μᵢ + (μᵢ+c₁/2+ψΛ)·X²] + 2τ²·ln(1/ζ₃)/(ψΛNT),
    B = σ₁√(Q₁/T) + β, X² = σ₂²Q₂/T, Q the quantiles of χ² with dT degrees of freedom at ζ/N,
    ψ = φ/2 and τ² = max(σ₁² + μ²σ₂²).
    """
    T, N = setting.rounds or 1, setting.agents
    spent = choice.phi / 2.0 * choice.weight
    lengths = [float(chdtri(setting.features * T, z / N)) / T for z in zetas[1:]]
    total = 0.0
    for degree, times in setting.degrees.items():
        mu, (sigma1, sigma2) = choice.mu(degree), scales[degree]
        first = (sigma1 * math.sqrt(lengths[0]) + setting.beta) ** 2
        total += times * (1.0 + spent / mu) * first / mu
        second = sigma2 * sigma2 * lengths[1]
        total += times * (mu + setting.loss.smoothness / 2.0 + spent) * second
    tau = max(s1 * s1 + (choice.mu(k) * s2) ** 2 for k, (s1, s2) in scales.items())
    return total / N - 2.0 * tau * math.log(zetas[0]) / (spent * N * T)


def parts_of(n: int, setting: BoundSetting, choice: Choice, scales: Scales) -> Parts:
    """Return all parts for n records per agent, at the setting's confidence."""
    zeta = 1.0 - setting.confidence
    if setting.rounds is None:
        return statistical_parts(n, setting, choice, zeta * np.array([0.5, 0.5]))
    quiet = setting.budget is None
    zetas = zeta * np.array([0.5, 0.5] if quiet else [0.4, 0.4, 0.1, 0.05, 0.05])
    noise = 0.0 if quiet else noise_part(setting, choice, scales, zetas[2:])
    return replace(
        statistical_parts(n, setting, choice, zetas),
        convergence=convergence(setting, choice.eta),
        noise=noise,
        solver=setting.beta**2 / (choice.phi * choice.weight),
    )


def convergence(setting: BoundSetting, eta: float) -> float:
    """G²/(2ηaT) + η·b̄·R²/T."""
    G, R, T = setting.loss.lipschitz, setting.norm, setting.rounds or 1
    dual = G * G / (2.0 * eta * setting.connectivity)
    return (dual + eta * setting.mean_degree * R * R) / T


def least_error(setting: BoundSetting) -> float:
    """Return what T rounds leave with any number of records: min over η of the convergence."""
    if setting.rounds is None:
        return 0.0
    if setting.eta is not None:
        return convergence(setting, setting.eta)
    scale = setting.loss.lipschitz * setting.norm / setting.rounds
    return scale * math.sqrt(2.0 * setting.mean_degree / setting.connectivity)
