"""Runs in MLflow's own server: `make test-trackers`."""

from __future__ import annotations

import importlib
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet
import pytest

from counterpose import Client, StressTest, log_to_mlflow
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import BackendUnavailable, RunNotEnded
from fakes.fault_proxy import fault_proxy
from fakes.served_gateway import ServedGateway

STORE = os.environ["COUNTERPOSE_TEST_MLFLOW"]
mlflow: Any = importlib.import_module("mlflow")

# MLflow's own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def mlflow_client() -> Any:
    """MLflow's client."""
    return mlflow.MlflowClient(STORE)


def logged(run_id: str) -> Any:
    """What MLflow knows of one of its runs."""
    return mlflow_client().get_run(run_id).data


def test_figures_intervals_verdict_and_report_are_in_mlflow(run: StressTest) -> None:
    number = log_to_mlflow(run, tracking_uri=STORE, experiment="counterpose-figures")
    found, summary = logged(number), run.summary()
    for name, model in summary.models.items():
        for part in ("estimate", "low", "high", "n"):
            known = getattr(model.drop, part)
            path = f"models/{name}/drop" + ("" if part == "estimate" else f".{part}")
            assert found.metrics.get(path) == (None if known is None else pytest.approx(known)), path
    assert found.metrics["findings"] == len(summary.findings)
    assert found.params["request.dataset"] == "demo"
    assert found.params["request.seed"] == "3"
    assert found.tags["counterpose.run_id"] == run.id
    assert found.tags["counterpose.verdict"] == summary.verdict
    assert found.tags["counterpose.page"] == run.page
    client = mlflow_client()
    assert {each.path for each in client.list_artifacts(number)} == {
        "pairs", "report.html", "results.parquet", "summary.json",
    }  # fmt: skip
    local = Path(mlflow.artifacts.download_artifacts(run_id=number, tracking_uri=STORE))
    assert "<html" in (local / "report.html").read_text(encoding="utf-8")
    assert (
        StressTestSummary.model_validate_json((local / "summary.json").read_bytes()).verdict
        == summary.verdict
    )
    assert client.get_run(number).info.status == "FINISHED"
    assert len(list((local / "pairs").glob("*-source.png"))) == len(summary.insights)
    assert_results(run, local / "results.parquet")


def assert_results(run: StressTest, path: Path) -> None:
    """The file has a row for each finished item, with what the item says."""
    rows = {each["id"]: each for each in pyarrow.parquet.read_table(path).to_pylist()}
    items = {item.id: item for item in run.results()}
    assert rows.keys() == items.keys()
    for item_id, item in items.items():
        row = rows[item_id]
        assert (row["state"], row["label"], row["stage"]) == (item.state, item.label, item.stage)
        if item.result is not None:
            assert row["image"] == item.result.image
            assert dict(row["score"]) == {name: each.score for name, each in item.result.predictions.items()}
            assert ItemResult.model_validate_json(row["result"]) == item.result


@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_server_that_dies_while_it_is_told_gets_the_rest_later(
    run: StressTest, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    experiment, real = f"counterpose-dies-{after}", mlflow.MlflowClient.log_artifact
    with fault_proxy(urlsplit(STORE).port or 0) as proxy, ExitStack() as broken:
        calls = iter(range(1000))

        def dies(self: Any, *told: Any) -> None:
            if next(calls) == after:
                broken.enter_context(proxy.broken("down"))
            real(self, *told)

        monkeypatch.setattr(mlflow.MlflowClient, "log_artifact", dies)
        through = f"http://127.0.0.1:{proxy.port}"
        with pytest.raises(BackendUnavailable, match="nothing of the run is lost"):
            log_to_mlflow(run, tracking_uri=through, experiment=experiment)
        begun = mlflow_client().search_runs(
            [mlflow_client().get_experiment_by_name(experiment).experiment_id]
        )
        assert [each.info.status for each in begun] == ["RUNNING"]
        broken.close()
        number = log_to_mlflow(run, tracking_uri=through, experiment=experiment)
    assert number == begun[0].info.run_id
    assert mlflow_client().get_run(number).info.status == "FINISHED"
    local = Path(mlflow.artifacts.download_artifacts(run_id=number, tracking_uri=STORE))
    assert_results(run, local / "results.parquet")


def test_a_second_call_completes_what_the_first_began(
    run: StressTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise mlflow.exceptions.MlflowException("the server died")

    with monkeypatch.context() as broken:
        broken.setattr(mlflow.MlflowClient, "log_artifact", dies)
        with pytest.raises(BackendUnavailable, match="the server died") as caught:
            log_to_mlflow(run, tracking_uri=STORE, experiment="counterpose-again")
    assert run.id in str(caught.value)
    number = log_to_mlflow(run, tracking_uri=STORE, experiment="counterpose-again")
    assert log_to_mlflow(run, tracking_uri=STORE, experiment="counterpose-again") == number
    client = mlflow_client()
    experiment = client.get_experiment_by_name("counterpose-again")
    assert experiment is not None
    assert len(client.search_runs([experiment.experiment_id])) == 1
    assert client.get_run(number).info.status == "FINISHED"


def test_figures_are_linked_to_the_model_that_was_tested(run: StressTest) -> None:
    client = mlflow_client()
    experiment = client.create_experiment("counterpose-models")
    model = client.create_logged_model(experiment, name="candidate")
    number = log_to_mlflow(run, tracking_uri=STORE, experiment="counterpose-models", model_id=model.model_id)
    known = client.get_logged_model(model.model_id)
    assert known.tags["counterpose"] == run.summary().verdict
    assert {each.run_id for each in known.metrics or []} == {number}


def test_a_run_that_goes_on_is_refused(served: ServedGateway) -> None:
    with Client(served.address) as client:
        going = client.stress_tests.create(dataset="demo", confirm=False, classifiers=["steady"], seed=4)
        with pytest.raises(RunNotEnded, match="wait for it"):
            log_to_mlflow(going, tracking_uri=STORE)
        going.cancel()


def test_a_server_that_is_not_there_is_named(run: StressTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(BackendUnavailable, match="call again once MLflow answers"):
        log_to_mlflow(run, tracking_uri="http://127.0.0.1:9")
