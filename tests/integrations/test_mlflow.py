"""What goes to MLflow. The last class needs MLflow itself: `pip install 'ppadmm[mlflow]'`.

CI does without (it is large); to run it all:

    pip install --target /tmp/mlflow mlflow-skinny
    PYTHONPATH=src:/tmp/mlflow python -m pytest tests/integrations/test_mlflow.py
"""

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ppadmm.errors import InputError
from ppadmm.integrations.mlflow import MLflowCallback, imported, released, uncovered
from ppadmm.runs.metrics import Metrics
from tests import small_runs

NAMES = ["private", "ipp", "seeded", "bare", "pooled"]


def elsewhere(result):
    """The same releases from a run whose records gave other test figures, passes and times."""
    other = Metrics(*(np.full_like(a, 0.123) for a in vars(result.metrics).values()))
    agents = Metrics(*(np.full_like(a, 0.123) for a in vars(result.agent_metrics).values()))
    return replace(
        result,
        metrics=other,
        agent_metrics=agents,
        train_loss=0.123,
        passes=123.0,
        seconds=12.3,
        history={},
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_releases_and_public_settings_are_logged(name):
    result = small_runs.finished(name)
    mine, other = released(result), released(elsewhere(result))
    assert mine.params == other.params
    assert mine.metrics == other.metrics
    assert (mine.tags, mine.texts) == (other.tags, other.texts)
    for curve in mine.curves:
        np.testing.assert_array_equal(mine.curves[curve], other.curves[curve])
    assert uncovered(result) != uncovered(elsewhere(result))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_whether_it_is_private(name):
    result = small_runs.finished(name)
    record = released(result)
    assert record.tags["ppadmm.private"] == str(result.statement.private).lower()
    assert json.loads(record.texts["model.json"])["private"] == result.statement.private
    assert record.texts["statement.txt"] == result.statement.text() + "\n"


def test_curves_are_those_of_the_releases():
    result = small_runs.finished("ipp")
    curves = released(result).curves
    values = result.trace.releases[:, :, 0]
    assert curves["agents_that_spoke"].sum() == sum(result.statement.releases)
    for t in (0, 5):
        mean = values[t].mean(axis=0)
        assert curves["model_norm"][t] == pytest.approx(np.linalg.norm(mean))
        furthest = max(np.linalg.norm(v - mean) for v in values[t])
        assert curves["disagreement"][t] == pytest.approx(furthest)


def test_no_path_is_logged():
    record = released(small_runs.finished("hostile"))
    assert record.params["data"] == "a<b>&'.csv"
    everything = json.dumps([dict(record.params), dict(record.tags), dict(record.texts)])
    folder = small_runs.finished("hostile").spec.data.removesuffix("/a<b>&'.csv")
    assert Path(folder).is_absolute()
    assert folder not in everything


def test_without_mlflow_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match=r"pip install 'ppadmm\[mlflow\]'"):
        imported()


def test_the_command_line_asks_for_it_before_any_work(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    done = command("train", "--mlflow", "file:mlflow")
    assert done.code == 2
    assert "pip install 'ppadmm[mlflow]'" in done.err


@pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed")
@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
class TestMLflow:
    @pytest.fixture
    def store(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        return f"file:{tmp_path / 'mlflow'}"

    def test_a_run_is_there(self, store):
        result = small_runs.finished("private")
        run_id = MLflowCallback(store, experiment="study")(result)
        client = imported().MlflowClient(store)
        run = client.get_run(run_id)
        record = released(result)
        assert run.info.status == "FINISHED"
        assert run.data.params == dict(record.params)
        last = {name: curve[-1] for name, curve in record.curves.items()}
        assert run.data.metrics == pytest.approx({**record.metrics, **last})
        history = client.get_metric_history(run_id, "model_norm")
        assert [entry.value for entry in history] == pytest.approx(record.curves["model_norm"])
        assert {name: run.data.tags[name] for name in record.tags} == dict(record.tags)
        assert client.get_experiment(run.info.experiment_id).name == "study"
        assert {file.path for file in client.list_artifacts(run_id)} == set(record.texts)

    def test_uncovered_figures_only_if_asked(self, store):
        result = small_runs.finished("private")
        client = imported().MlflowClient(store)
        plain = client.get_run(MLflowCallback(store)(result)).data.metrics
        assert not any("test" in name or "seconds" in name for name in plain)
        asked = client.get_run(MLflowCallback(store, uncovered=True)(result)).data.metrics
        assert asked["uncovered.test_error"] == pytest.approx(result.metrics.error[0])

    def test_nothing_of_the_machine_is_logged(self, store):
        run_id = MLflowCallback(store)(small_runs.finished("private"))
        tags = imported().MlflowClient(store).get_run(run_id).data.tags
        assert not {"mlflow.user", "mlflow.source.name", "mlflow.source.git.commit"} & set(tags)

    def test_an_active_run_is_used(self, store):
        mlflow = imported()
        mlflow.set_tracking_uri(store)
        with mlflow.start_run() as run:
            assert MLflowCallback()(small_runs.finished("private")) == run.info.run_id
            assert mlflow.active_run().info.run_id == run.info.run_id

    def test_from_the_command_line(self, store, command):
        quick = ("--rounds", 3, "--agents", 3)
        done = command("train", *quick, "--no-save", "--mlflow", store)
        assert done.code == 0, done.err
        (run,) = imported().MlflowClient(store).search_runs(["0"])
        assert run.data.params["rounds"] == "3"

    def test_a_store_that_refuses_is_named_before_any_work(self, command, monkeypatch):
        monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
        done = command("train", "--mlflow", "magic://nowhere")
        assert done.code == 2
        assert done.out == ""
        assert "MLflow cannot log to 'magic://nowhere'" in done.err
