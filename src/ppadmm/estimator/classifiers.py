"""The classifiers by name: two linear ones, and one that is a sum of curves."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from ppadmm.arrays import Array
from ppadmm.data import Schema
from ppadmm.data.knots import knots_for, settle_knots
from ppadmm.errors import InputError
from ppadmm.estimator.base import AgentModel, PrivateModel
from ppadmm.estimator.encoders import Box, Curves, Encoder, Frame, knots_of


class _LogOdds(PrivateModel):
    """Scores are log-odds: of the later of two classes, or of each, up to a constant."""

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


class PrivateLogisticRegression(_LogOdds):
    """Logistic regression trained with differential privacy, at one place or over several agents.

    Parameters
    ----------
    epsilon, delta
        Budget of every agent's records for the whole fit.
    algorithm
        A name of `ppadmm.algorithms.ALGORITHMS`: "pp", "ipp", "gradient", "one-shot", ….
    n_agents
        Agents that share the records evenly, unless `fit` gets `groups`. One agent, the default,
        means objective perturbation of all records at one place.
    graph
        Who talks to whom, if there are several: a kind such as "ring", or a file with one edge per
        line.
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
    trust, colluding
        Whom several agents trust: "local", nobody, or "sum" with the algorithm "newton" and agents
        of whom at most `colluding` put their knowledge together (docs/choosing-trust.md).
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
        (1, d) and (1,) for two classes, (K, d) and (K,) for K > 2; `get_feature_names_out` has the
        d names. In the units of X with `bounds`: X @ coef_.T + intercept_ has the sign of
        `decision_function`, which divides it by the length of the encoded record. With a schema
        they belong to the encoded features, such as the knots of a curve.
    agents_
        An `AgentModel` for every agent.
    classes_, schema_, n_features_in_, feature_names_in_
        What is public about the records.

    Notes
    -----
    If `private_`, all that the agents send, hence the model, is (ε, δ)-differentially private for
    one record of one agent under `adjacency`; with `trust="sum"` only under what
    `privacy_statement_.trust` assumes. Scores on private records are not covered. With
    bounds or classes read off the records, after a pipeline step that may look at several of them,
    or with a `random_state`, `private_` is False. docs/scikit-learn.md has the rest.
    """


class PrivateLinearSVC(PrivateModel):
    """Linear support vector machine (hinge loss, rounded off) trained in the same way.

    Three or more classes are trained one against the rest. There are no probabilities; see
    `PrivateLogisticRegression` for everything else.
    """

    _loss = "huber-hinge"


@dataclass(eq=False, repr=False)
class PrivateAdditiveClassifier(_LogOdds):
    """Sum of curves, one for every column, trained with differential privacy.

    A generalised additive model: the log-odds are an intercept and, for every numeric column, a
    piecewise linear function through public knots between its bounds. `explain_global` gives the
    curves in the units of the columns, `explain_local` what each column adds for a record. NaN is
    a missing value, with an effect of its own.

    Parameters
    ----------
    epsilon, delta, algorithm, n_agents, graph
        As in `PrivateLogisticRegression`.
    bounds
        As there: the first and last knot of every curve, unless `knots` lists others. Values
        outside are clipped.
    schema
        A `ppadmm.data.Schema`, or the path of its file, in place of bounds, knots and classes:
        for categories, logarithmic scales, steps and lines. Its own shapes count.
    classes, rounds, eta, regularisation, adjacency, weights, trust, colluding, ledger, dataset
        As in `PrivateLogisticRegression`.
    accept_composition, random_state
        As there.
    knots
        How many knots a curve has, at equal distances; or a list with such a number, or with the
        knots themselves, for every column; or a dict of these by column. None, also for a column,
        is a number chosen from public sizes: records, columns and ε. Knots that were chosen by
        looking at private records are not public.

    Attributes
    ----------
    private_, privacy_statement_, dp_event_, agents_, classes_, n_features_in_, feature_names_in_
        As in `PrivateLogisticRegression`.
    schema_
        The columns as curves, with their knots.
    coef_, intercept_
        (1, d) and (1,), or (K, d) and (K,): what the model is at every knot and for a missing
        value, before rows are divided by their length. `get_feature_names_out` has the d names. A
        curve may be moved up and the intercept down; `explain_global` centres the curves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, (20_000, 1))
    >>> y = rng.random(20_000) < np.where(abs(X[:, 0] - 50) < 25, 0.9, 0.1)
    >>> model = PrivateAdditiveClassifier(bounds=(0, 100), classes=[False, True], knots=5)
    >>> curve = model.fit(X, y).explain_global().data("x0")
    >>> curve["names"], (np.array(curve["scores"]) > 0).tolist()
    ([0.0, 25.0, 50.0, 75.0, 100.0], [False, True, True, True, False])
    """

    _takes: ClassVar[dict[str, Any]] = {"ensure_all_finite": "allow-nan"}
    knots: Any = field(default=None, kw_only=True)

    def _shaped(self, schema: Schema, records: int) -> Schema:
        """Return the schema with the knots of all curves: as many as were asked for, or by rule."""
        if self.knots is not None and not isinstance(self.knots, int):
            raise InputError(
                "With a schema knots is one number, for curves that name none; list others there."
            )
        return settle_knots(schema, records, self.epsilon, self.knots)

    def _within(self, found: Box, frame: Frame) -> tuple[Encoder, Schema]:
        """Return how numbers become rows, and the same as a schema: curves."""
        usual = knots_for(frame.records, len(frame.names), self.epsilon)
        columns = found.curves(frame.names, knots_of(self.knots, frame.names, usual))
        schema = frame.schema(columns, missing=("nan",))
        return Curves(schema), schema


__all__ = [
    "AgentModel",
    "PrivateAdditiveClassifier",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
]
