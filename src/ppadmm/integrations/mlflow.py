"""A finished run in MLflow (extra `mlflow`): what was released, and what is public anyway.

    from ppadmm.integrations.mlflow import MLflowCallback
    log = MLflowCallback("http://mlflow.example.org:5000", experiment="stroke study")
    log(train(spec))

Guarantee: what is logged follows from the releases, the public settings and the statement alone.
Test figures, running time and passes are computed from records without noise: they are left out
unless `uncovered` asks for them, and then carry that word in their names.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import __version__
from ppadmm.arrays import Array
from ppadmm.errors import InputError
from ppadmm.runs.folder import model_dict
from ppadmm.runs.run import Result

LONGEST = 500
"""MLflow cuts or refuses longer values, depending on where it stores them."""


@dataclass(frozen=True)
class Record:
    """What is said about a run; `curves` have a value for every round."""

    params: Mapping[str, str]
    metrics: Mapping[str, float]
    curves: Mapping[str, Array]
    tags: Mapping[str, str]
    texts: Mapping[str, str]


def released(result: Result) -> Record:
    """Return all of a run that its statement covers."""
    statement = result.statement
    return Record(
        params={name: _short(value) for name, value in _params(result).items()},
        metrics=_metrics(result),
        curves=_curves(result.trace.releases[:, :, 0], result.trace.spoke[:, :, 0]),
        tags={
            "ppadmm.version": __version__,
            "ppadmm.private": str(statement.private).lower(),
            "ppadmm.not_private_because": _short("; ".join(statement.not_private_because)),
            "ppadmm.unit": statement.unit,
            "ppadmm.noise": statement.noise_source,
        },
        texts={
            "statement.txt": statement.text() + "\n",
            "statement.json": _json(result.disclosure()),
            "model.json": _json(model_dict(result)),
        },
    )


def uncovered(result: Result) -> dict[str, float]:
    """Return the figures that no ε covers."""
    figures = {
        "test_error": float(result.metrics.error[0]),
        "test_auc": float(result.metrics.auc[0]),
        "test_log_loss": float(result.metrics.log_loss[0]),
        "seconds": result.seconds,
        "passes": result.passes,
    }
    return {f"uncovered.{name}": v for name, v in figures.items() if np.isfinite(v)}


def _params(result: Result) -> dict[str, object]:
    spec, settings, setup = result.spec, result.settings, result.setup
    return {
        "data": spec.data_name,
        "algorithm": spec.algorithm,
        "loss": setup.loss.name,
        "agents": spec.agents,
        "records": list(setup.records),
        "features": setup.features,
        "parameters": setup.parameters,
        "graph": setup.graph.name,
        "partition": spec.partition,
        "epsilons": sorted({budget.epsilon for budget in spec.budgets}),
        "delta": spec.delta,
        "rounds": settings.rounds,
        "eta": settings.eta[0],
        "regularisation": settings.regularisation[0],
        "beta": settings.beta,
        "calibration": settings.calibration,
        "adjacency": settings.adjacency,
        "weights": spec.weighting,
        "seed": spec.seed,
    }


def _metrics(result: Result) -> dict[str, float]:
    statement = result.statement
    metrics = {"delta": statement.delta, "releases": float(max(statement.releases))}
    if statement.epsilon is not None:
        metrics["epsilon"] = statement.epsilon
    for name in {name: None for scales in result.noise for name in scales}:
        metrics[f"noise.{name}"] = max(scales.get(name, 0.0) for scales in result.noise)
    return metrics


def _curves(releases: Array, spoke: NDArray[np.bool_]) -> dict[str, Array]:
    """Follow (T, N, d) releases: the size of their mean, how far agents are from it, who spoke."""
    mean = releases.mean(axis=1)
    apart = np.linalg.norm(releases - mean[:, None], axis=2).max(axis=1)
    return {
        "model_norm": np.linalg.norm(mean, axis=1),
        "disagreement": apart,
        "agents_that_spoke": spoke.sum(axis=1).astype(np.float64),
    }


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


@dataclass(frozen=True)
class MLflowCallback:
    """Logs finished runs: into MLflow's active run, or else each into a new one.

    `tracking_uri` and `experiment` are MLflow's own if not given. No user name, path or host is
    logged; the times that MLflow keeps are those of the logging, not of the training.
    """

    tracking_uri: str | None = None
    experiment: str | None = None
    uncovered: bool = False

    def ready(self) -> None:
        """Refuse, before any work, a store that does not answer."""
        with self._named(mlflow := imported()):
            self._experiment(mlflow.MlflowClient(tracking_uri=self.tracking_uri))

    def __call__(self, result: Result) -> str:
        """Log a run and return MLflow's id of it."""
        with self._named(mlflow := imported()):
            return self._log(mlflow, result)

    def _log(self, mlflow: Any, result: Result) -> str:
        record = released(result)
        more = uncovered(result) if self.uncovered else {}
        active = mlflow.active_run() if self.tracking_uri is None else None
        client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        name = f"{result.spec.algorithm} on {result.spec.data_name}"
        run = active or client.create_run(self._experiment(client), run_name=name)
        _write(mlflow, client, run.info.run_id, record, more)
        if active is None:
            client.set_terminated(run.info.run_id)
        return str(run.info.run_id)

    @contextmanager
    def _named(self, mlflow: Any) -> Iterator[None]:
        """Turn what MLflow refuses into one sentence."""
        try:
            yield
        except mlflow.exceptions.MlflowException as error:
            where = self.tracking_uri or mlflow.get_tracking_uri()
            reason = str(error).split(". ")[0].strip().rstrip(".")
            raise InputError(f"MLflow cannot log to {where!r}: {reason}.") from error

    def _experiment(self, client: Any) -> str:
        name = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
        found = client.get_experiment_by_name(name)
        return str(client.create_experiment(name) if found is None else found.experiment_id)


def _write(mlflow: Any, client: Any, run: str, record: Record, more: dict[str, float]) -> None:
    entities, now = mlflow.entities, int(time.time() * 1000)
    figures = [(name, value, 0) for name, value in {**record.metrics, **more}.items()]
    for name, curve in record.curves.items():
        figures += [(name, float(value), t) for t, value in enumerate(curve)]
    metrics = [entities.Metric(name, value, now, step) for name, value, step in figures]
    params = [entities.Param(name, value) for name, value in record.params.items()]
    tags = [entities.RunTag(name, value) for name, value in record.tags.items()]
    client.log_batch(run, params=params, tags=tags)
    for start in range(0, len(metrics), 500):
        client.log_batch(run, metrics=metrics[start : start + 500])
    for name, text in record.texts.items():
        client.log_text(run, text, name)


def imported() -> Any:
    """Import MLflow, or say how to get it; it is told not to report to its makers.

    A server that does not answer is given up on after three tries, not after minutes.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    try:
        import mlflow
    except ImportError:
        raise InputError(
            "Tracking needs MLflow; install it with: pip install 'ppadmm[mlflow]'."
        ) from None
    return mlflow
