"""`PrivateLogisticRegression` and `PrivateLinearSVC`: training over several agents, as `fit`."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ppadmm.accounting import Budget, accountant
from ppadmm.accounting.interop import to_dp_event, without_sampler
from ppadmm.accounting.protection import Protection
from ppadmm.algorithms import ALGORITHMS, name_alone
from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.data.fingerprint import Fingerprint
from ppadmm.errors import BudgetError, DataError, InputError, PrivacyWarning
from ppadmm.estimator.encoders import Box, BySchema, Encoder, box, observed_box, target
from ppadmm.estimator.labels import classes_like, places, refuse_mixed
from ppadmm.estimator.reuse_guard import REGISTER, Earlier, Fit, not_private_because, refuse_callers
from ppadmm.estimator.splitting import deal, federation_of, no_cell_quoted, refuse_missing
from ppadmm.problem.graphs import ALONE
from ppadmm.runs.facts import facts_of
from ppadmm.runs.hints import loud_sites
from ppadmm.runs.ledger_session import LedgerOptions, open_session
from ppadmm.runs.run import EngineOutput, Prepared, execute
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import Statement, rounded_up
from ppadmm.statements.facts import statement_of

Seen: TypeAlias = tuple[Any, Callable[[], Fingerprint]]
"""Rows to know again in this process, and what a ledger knows the records by."""


@dataclass(frozen=True, eq=False)
class AgentModel:
    """What one agent ends up with from its own releases, and what it cost its records.

    Unless the fit is `private`, `epsilon` is no guarantee.
    """

    name: str
    records: int
    coef: Array
    intercept: Array
    epsilon: float
    private: bool


@dataclass(eq=False, repr=False)
class _PrivateLinear(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What both classifiers share; see `PrivateLogisticRegression`.

    scikit-learn reads the parameters off the constructor, which is made from these fields.
    """

    _loss: ClassVar[str]

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    algorithm: str = "pp"
    n_agents: int = 5
    graph: str = "erdos-renyi"
    bounds: Any = None
    schema: Schema | str | Path | None = None
    classes: Sequence[Any] | None = None
    rounds: int | None = None
    eta: float | None = None
    regularisation: float = 0.0
    adjacency: str = "replace-one"
    weights: str = "records"
    ledger: str | Path | None = None
    dataset: str | None = None
    accept_composition: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> "_PrivateLinear":
        """Train on records X (n, features) with labels y (n,) and return itself.

        `groups` (n,) names the site of each record: an agent for every name, in place of
        `n_agents`. Who holds which record, and how many, count as public.
        """
        if self._is_secret:
            refuse_callers(self.accept_composition)
        X, labels = self._checked(X, y)
        classes, codes = self._classes(labels)
        encoder, schema = self._encoder(X, classes)
        dealt = deal(len(codes), self.n_agents, groups)
        spec = self._spec(len(dealt.parts))
        rows = encoder.encode(X)
        prepared = Prepared.of(spec, federation_of(spec, rows, codes, schema, dealt))
        why = not_private_because(self._is_secret)
        self._warn(schema.confirmed, why)
        for hint in loud_sites(spec, prepared.federation.setup):
            warnings.warn(hint, UserWarning, stacklevel=2)
        seen = X if isinstance(encoder, Box) else rows
        records = (seen, partial(encoder.fingerprint, X, labels))
        output, statement = self._train(prepared, records, why)
        self.classes_ = classes
        self.schema_ = schema
        self._encoder_ = encoder
        self._keep(prepared, output, statement)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return θᵀ(z, 1)/‖(z, 1)‖ of the encoded records: (n,), or (n, K) for K > 2 classes."""
        check_is_fitted(self)
        rows = self._encoder_.encode(self._validated(X, reset=False))
        scores = np.asarray(rows @ self._theta.T)
        return scores[:, 0] if len(self._theta) == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each record: of a positive score, or of the largest."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[codes]
        return found

    @property
    def dp_event_(self) -> Any:
        """The fit as a `dp_accounting.DpEvent`, that of the agent whose records cost most.

        `NonPrivateDpEvent` if the fit is not private. The sampler's total variation, which
        `dp_accounting` has no event for, is left out; `privacy_statement_` includes it.
        """
        check_is_fitted(self)
        if not self.private_:
            from dp_accounting.dp_event import NonPrivateDpEvent

            return NonPrivateDpEvent()
        worst = max(self._tallies, key=lambda t: accountant.epsilon(t, self.delta).epsilon)
        return to_dp_event(without_sampler(worst))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.schema is None
        # Noise: the data sets of scikit-learn's checks are far too small for any ε of interest.
        tags.classifier_tags.poor_score = not self._is_noiseless
        return tags

    @property
    def _is_noiseless(self) -> bool:
        """Whether the algorithm draws nothing; one that there is not is refused by `fit`."""
        recipe = ALGORITHMS.get(self.algorithm)
        return recipe is not None and recipe.noiseless

    @property
    def _is_secret(self) -> bool:
        """Whether records meet secure noise: nobody said that this is a simulation."""
        return self.random_state is None and not self._is_noiseless

    def _checked(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        refuse_missing("label", y)
        refuse_mixed("list of labels", y)
        X, y = self._validated(X, y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return X, np.asarray(y)

    def _validated(self, X: Any, *y: Any, reset: bool = True) -> Any:
        """Return X, with y if it is given: as a schema reads it, or numbers."""
        if self.schema is not None:
            return validate_data(self, X, *y, reset=reset, skip_check_array=True)
        with no_cell_quoted(X):
            return validate_data(self, X, *y, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _classes(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the classes in order and the place of every label among them."""
        given: Any = self.classes
        refuse_mixed("list of classes", given)
        if given is None and self.schema is not None:
            given = classes_like(self._schema().label.names, y)
        classes = np.unique(np.asarray(y if given is None else given))
        if len(classes) < 2:
            raise DataError(
                "Expected two classes or more, got 1 class; name the others, which these records "
                "happen to lack, with classes=[…]."
            )
        return classes, places(y, classes)

    def _schema(self) -> Schema:
        if isinstance(self.schema, Schema):
            return self.schema
        return Schema.from_toml(str(self.schema))

    def _encoder(self, X: Any, classes: NDArray[Any]) -> tuple[Encoder, Schema]:
        """Return how records become rows, and the same as a schema."""
        if self.schema is not None:
            if self.bounds is not None:
                raise InputError("The schema has bounds of its own; leave out bounds.")
            public = self._schema()
            return BySchema(public), public
        unnamed = [f"x{j}" for j in range(X.shape[1])]
        names = [str(name) for name in getattr(self, "feature_names_in_", unnamed)]
        found = observed_box(X) if self.bounds is None else box(self.bounds, names)
        confirmed = self.bounds is not None and self.classes is not None
        label = target([str(c) for c in classes.tolist()], names)
        return found, Schema(found.columns(names), label, missing=(), confirmed=confirmed)

    def _spec(self, agents: int) -> RunSpec:
        return RunSpec(
            data="records",
            agents=agents,
            graph=ALONE if agents == 1 else self.graph,
            algorithm=name_alone(self.algorithm) if agents == 1 else self.algorithm,
            loss=self._loss,
            epsilon=self.epsilon,
            delta=self.delta,
            rounds=self.rounds,
            eta=self.eta,
            regularisation=self.regularisation,
            adjacency=self.adjacency,
            weights=self.weights,
            seed=_seed(self.random_state),
        )

    def _warn(self, confirmed: bool, around: Sequence[str]) -> None:
        """Say once why a fit is not private, though nobody asked for that."""
        why = []
        if not confirmed and self.schema is not None:
            why.append("the schema is not confirmed (correct it, then set confirmed)")
        elif not confirmed:
            names = [name for name in ("bounds", "classes") if getattr(self, name) is None]
            why.append(f"{' and '.join(names)} were read off the records (give them)")
        why += around
        if why:
            warnings.warn(f"NOT private: {'; '.join(why)}.", PrivacyWarning, stacklevel=3)

    def _train(
        self, prepared: Prepared, records: Seen, around: Sequence[str]
    ) -> tuple[EngineOutput, Statement]:
        """Run the agents; private records are looked up before and remembered after."""
        reasons = (*prepared.not_private_because, *around)
        if reasons:
            output = self._execute(prepared, records, reasons)
            statement = statement_of(facts_of(prepared, output))
            return output, replace(statement, private=False, not_private_because=reasons)
        prints, protection = REGISTER.prints(records[0]), Protection(self.adjacency)
        self._refuse_again(REGISTER.earlier(prints), protection, len(prints))
        output = self._execute(prepared, records, ())
        fit = Fit(prints, tuple(output.reserved), Budget(self.epsilon, self.delta), protection)
        earlier = REGISTER.enter(fit)
        # Another thread may have been faster: then nothing is shown.
        self._refuse_again(earlier, protection, len(prints))
        statement = statement_of(facts_of(prepared, output))
        note = _together([*earlier.fits, fit]) if earlier.fits else ()
        return output, replace(statement, caveats=(*note, *statement.caveats))

    def _refuse_again(self, earlier: Earlier, protection: Protection, of: int) -> None:
        if earlier.count and self.ledger is None and not self.accept_composition:
            raise BudgetError(
                f"{earlier.count} of these {of} records were trained on before in this process, "
                "and ε adds up over fits; give ledger=FILE to keep the books, "
                "accept_composition=True to go on, or random_state to simulate."
            )
        for fit in earlier.fits:
            if fit.protection != protection:
                raise BudgetError(
                    f"Some of these records were trained on before in this process with adjacency "
                    f"{fit.protection}, and costs of that and of {protection} do not add up; give "
                    f"adjacency={str(fit.protection)!r}, or random_state to simulate."
                )

    def _execute(self, prepared: Prepared, records: Seen, reasons: Sequence[str]) -> EngineOutput:
        """Run the agents, and charge the ledger if there is one; it refuses what has `reasons`."""
        if self.ledger is None:
            return execute(prepared)
        booked = open_session(
            LedgerOptions(Path(self.ledger), self.dataset),
            prepared.spec,
            reasons,
            name="records",
            schema=prepared.federation.schema,
            fingerprint=records[1](),
        )
        with booked:
            output = execute(prepared, book=booked.book)
            booked.finish()
        return output

    def _keep(self, prepared: Prepared, output: EngineOutput, statement: Statement) -> None:
        """Keep what was released, and nothing of the records."""
        K = prepared.federation.loss.outputs
        self._theta = output.trace.model(prepared.weights)[0].reshape(K, -1)
        self._tallies = tuple(output.reserved)
        self.privacy_statement_ = statement
        self.private_ = statement.private
        self.coef_, self.intercept_ = self._encoder_.linear(self._theta)
        models = output.trace.agent_models()[:, 0].reshape(len(output.endings), K, -1)
        pooled = len(models) < len(prepared.federation.names)
        names = ("all, pooled",) if pooled else prepared.federation.names
        sizes = (sum(prepared.federation.records),) if pooled else prepared.federation.records
        bounds = [accountant.epsilon(tally, self.delta).epsilon for tally in self._tallies]
        self.agents_ = tuple(
            AgentModel(name, n, *self._encoder_.linear(theta), bound, statement.private)
            for name, n, theta, bound in zip(names, sizes, models, bounds, strict=True)
        )


class PrivateLogisticRegression(_PrivateLinear):
    """Logistic regression trained over several agents with differential privacy.

    Parameters
    ----------
    epsilon, delta
        Budget of every agent's records for the whole fit.
    algorithm
        A name of `ppadmm.algorithms.ALGORITHMS`: "pp", "ipp", "gradient", "one-shot", ….
    n_agents
        Agents that share the records evenly, unless `fit` gets `groups`. One agent means
        objective perturbation of all records at one place.
    graph
        Who talks to whom: a kind such as "ring", or a file with one edge per line.
    bounds
        Public bounds of the features: (low, high), each a number or one per feature, or
        {name: (low, high)}. Values outside are clipped.
    schema
        A `ppadmm.data.Schema`, or the path of its file, in place of bounds and classes: for
        frames with categories and missing cells.
    classes
        The public list of classes.
    rounds, eta, regularisation, adjacency, weights
        As in `RunSpec`; None is chosen from public sizes.
    ledger, dataset
        A data owner's ledger to charge, and what the records are called there.
    accept_composition
        Train again on records that this process has trained on; the ε add up. Also let another
        meta-estimator call `fit`, which is then not private.
    random_state
        Makes the fit a repeatable simulation, not private.

    Attributes
    ----------
    private_, privacy_statement_, dp_event_
        Whether the fit may be called private, what may be claimed, and the same for
        `dp_accounting`.
    coef_, intercept_
        In the units of X (of the encoded features with a schema). X @ coef_.T + intercept_ has
        the sign of `decision_function`, which divides it by the length of the encoded record.
    agents_
        An `AgentModel` for every agent.
    classes_, schema_, n_features_in_, feature_names_in_
        What is public about the records.

    Notes
    -----
    If `private_`, all that the agents send, hence the model, is (ε, δ)-differentially private for
    one record of one agent under `adjacency`. Scores on private records are not covered. With
    bounds or classes read off the records, after a pipeline step that may look at several of them,
    or with a `random_state`, `private_` is False. docs/scikit-learn.md has the rest.
    """

    _loss = "logistic"

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (n, K)."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        p = expit(scores)
        return np.column_stack([1.0 - p, p])

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))


class PrivateLinearSVC(_PrivateLinear):
    """Linear support vector machine (hinge loss, rounded off) trained in the same way.

    Three or more classes are trained one against the rest. There are no probabilities; see
    `PrivateLogisticRegression` for everything else.
    """

    _loss = "huber-hinge"


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(2**31 - 1))


def _together(fits: Sequence[Fit]) -> tuple[str]:
    """Say what all fits cost; each may follow from what was seen of the earlier ones."""
    total = REGISTER.total(fits)
    found = (
        "no ε covers them together."
        if total is None
        else f"however each was chosen, the privacy loss of all together is at most "
        f"ε = {rounded_up(total.epsilon)}, except with probability δ = {total.delta:g}."
    )
    return (
        f"Some of these records were trained on in {len(fits) - 1} earlier fits of this process: "
        f"{found}",
    )


__all__ = ["AgentModel", "PrivateLinearSVC", "PrivateLogisticRegression"]
