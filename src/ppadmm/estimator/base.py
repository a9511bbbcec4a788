"""What all classifiers share: training over the agents in this process, as `fit`."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
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
from ppadmm.errors import DataError, InputError, PrivacyWarning
from ppadmm.estimator.encoders import Box, BySchema, Encoder, Frame, box, observed_box, target
from ppadmm.estimator.explanations import GlobalExplanation, LocalExplanation
from ppadmm.estimator.labels import classes_like, places, refuse_mixed
from ppadmm.estimator.reuse_guard import not_private_because, refuse_callers
from ppadmm.estimator.splitting import deal, federation_of, no_cell_quoted, refuse_missing
from ppadmm.estimator.training import FitTerms
from ppadmm.problem.graphs import ALONE
from ppadmm.runs.hints import loud_sites
from ppadmm.runs.run import EngineOutput, Prepared
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import Statement


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
class PrivateModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all classifiers share; see `PrivateLogisticRegression`.

    scikit-learn reads the parameters off the constructor, which is made from these fields.
    """

    _loss: ClassVar[str]
    _takes: ClassVar[dict[str, Any]] = {"accept_sparse": "csr"}
    """What is allowed of numbers, besides finite ones in an array."""

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    algorithm: str = "pp"
    n_agents: int = 1
    graph: str = "erdos-renyi"
    bounds: Any = None
    schema: Schema | str | Path | None = None
    classes: Sequence[Any] | None = None
    rounds: int | None = None
    eta: float | None = None
    regularisation: float = 0.0
    adjacency: str = "replace-one"
    weights: str = "records"
    trust: str = "local"
    colluding: int = 1
    ledger: str | Path | None = None
    dataset: str | None = None
    accept_composition: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> "PrivateModel":
        """Train on records X (n, features) with labels y (n,) and return itself.

        `groups` (n,) names the site of each record: an agent for every name, in place of
        `n_agents`. Who holds which record, and how many, count as public. Without it all records
        are at one place, unless `n_agents` says otherwise.
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
        records = (encoder.cells(X), partial(encoder.fingerprint, X, labels))
        output, statement = self._terms().train(prepared, records, why)
        self.classes_ = classes
        self.schema_ = schema
        self._encoder_ = encoder
        self._keep(prepared, output, statement)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return θᵀ(z, 1)/‖(z, 1)‖ of the encoded records: (n,), or (n, K) for K > 2 classes."""
        scores = np.asarray(self._encoded(X) @ self._theta.T)
        return scores[:, 0] if len(self._theta) == 1 else scores

    def _encoded(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._encoder_.encode(self._validated(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each record: of a positive score, or of the largest."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[codes]
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of `coef_`, in order.

        They are those of `schema_`: a line has the name of its column; a curve `column@knot` for
        every knot, then `column=missing`; steps `column[from,to)`, then `column=missing`; a
        category `column=category`. Columns of an array are called x0, x1, …. `input_features` is
        there for pipelines, and refused if it is not `feature_names_in_`.
        """
        check_is_fitted(self)
        known = list(getattr(self, "feature_names_in_", ()))
        if input_features is not None and known and list(input_features) != known:
            raise InputError(
                f"Expected input_features to be feature_names_in_, got {list(input_features)}."
            )
        return np.asarray(self.schema_.feature_names[:-1], dtype=object)

    def explain_global(self) -> GlobalExplanation:
        """Return what the model says of every column, in the column's units.

        It is made of the model and of what is public, and costs no budget.
        """
        check_is_fitted(self)
        return GlobalExplanation.of(self.schema_, self._theta, self.classes_.tolist())

    def explain_local(self, X: Any) -> LocalExplanation:
        """Return what every column adds to the score of each record of X.

        With the intercept it adds up to `decision_function`.
        """
        rows = self._encoded(X)
        return LocalExplanation.of(self.schema_, self._theta, rows)

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
        tags.input_tags.sparse = self.schema is None and "accept_sparse" in self._takes
        tags.input_tags.allow_nan = "ensure_all_finite" in self._takes
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
            return validate_data(self, X, *y, reset=reset, dtype=np.float64, **self._takes)

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

    def _public_schema(self) -> Schema:
        if self.bounds is not None:
            raise InputError("The schema has bounds of its own; leave out bounds.")
        return self._schema()

    def _schema(self) -> Schema:
        if isinstance(self.schema, Schema):
            return self.schema
        return Schema.from_toml(str(self.schema))

    def _encoder(self, X: Any, classes: NDArray[Any]) -> tuple[Encoder, Schema]:
        """Return how records become rows, and the same as a schema."""
        if self.schema is not None:
            public = self._shaped(self._public_schema(), len(X))
            return BySchema(public), public
        unnamed = [f"x{j}" for j in range(X.shape[1])]
        names = [str(name) for name in getattr(self, "feature_names_in_", unnamed)]
        found = observed_box(X) if self.bounds is None else box(self.bounds, names)
        confirmed = self.bounds is not None and self.classes is not None
        label = target([str(c) for c in classes.tolist()], names)
        return self._within(found, Frame(names, label, confirmed, X.shape[0]))

    def _shaped(self, schema: Schema, records: int) -> Schema:
        """Return the schema of a linear model: only curves that name their knots stay curves."""
        return schema.with_knots(0)

    def _within(self, found: Box, frame: Frame) -> tuple[Encoder, Schema]:
        """Return the same for numbers within bounds: lines."""
        return found, frame.schema(found.columns(frame.names))

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
            trust=self.trust,
            colluding=self.colluding,
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

    def _terms(self) -> FitTerms:
        ledger = None if self.ledger is None else Path(self.ledger)
        budget, protection = Budget(self.epsilon, self.delta), Protection(self.adjacency)
        return FitTerms(budget, protection, ledger, self.dataset, self.accept_composition)

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


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    return int(check_random_state(random_state).randint(2**31 - 1))
