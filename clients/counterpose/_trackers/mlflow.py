"""An ended run in MLflow: what it depends on, its figures with intervals, its verdict and its report."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose._trackers.figures import figures_of, named, params
from counterpose._trackers.findings import rows
from counterpose._trackers.results import RESULTS, parquet, write_results
from counterpose._trackers.start import require_ended
from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import BackendUnavailable, InvalidRequest
from counterpose_core.installation import adding

RUN_TAG = "counterpose.run_id"
"""By this tag a second call finds the MLflow run of the first."""
LONGEST_TAG, MOST_AT_ONCE = 5000, 500
"""What MLflow's stores take: letters of a tag, and metrics in one call."""
PAIRS, MOST_PAIRS = "pairs", 6
"""The folder of the findings' images among the artifacts, and how many findings have theirs there."""


def log_to_mlflow(
    run: RunHandle[Any, Any],
    *,
    experiment: str = "counterpose",
    tracking_uri: str | None = None,
    model_id: str | None = None,
) -> str:
    """Log an ended run to MLflow, and return the id of MLflow's run.

    A repeated call completes the MLflow run that the first one made, so it can be repeated after a failure.

    Args:
        run: a run of any kind, which has ended.
        experiment: MLflow's experiment, created if there is none.
        tracking_uri: MLflow's server or SQL store, such as ``http://host:5000``; default: what MLflow is
            set to.
        model_id: the logged model that was tested; the figures and the verdict are linked to it.

    Raises:
        RunNotEnded: the run goes on.
        InvalidRequest: MLflow or pyarrow is not installed, or the store is a folder, which MLflow no
            longer keeps up.
        BackendUnavailable: MLflow cannot be reached or refuses what it is sent.
    """
    require_ended(run)
    client = mlflow_client(tracking_uri)
    parquet()
    try:
        return _Log(client, run, run.summary()).write(experiment, model_id)
    # MLflow's client raises its own errors, those of requests, and those of SQLAlchemy.
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("mlflow", "requests", "urllib3", "sqlalchemy"):
            raise BackendUnavailable(
                f"MLflow did not take the run {run.id!r} ({type(error).__name__}: {error}); nothing of the "
                "run is lost, call again once MLflow answers"
            ) from error
        raise


def mlflow_client(tracking_uri: str | None) -> Any:
    """Return MLflow's client of a server or a database.

    Raises:
        InvalidRequest: MLflow is not installed, or the store is a folder.
    """
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError as error:
        raise InvalidRequest(
            f"this needs MLflow's client, which is not installed: {adding('mlflow')}"
        ) from error
    uri = tracking_uri or str(mlflow.get_tracking_uri())
    if uri.startswith("file:") or "://" not in uri:
        raise InvalidRequest(
            f"MLflow keeps up no store of files any more ({uri!r}); name a server, such as "
            "http://127.0.0.1:5000, or a database, such as sqlite:///mlflow.db"
        )
    return mlflow.MlflowClient(uri)


@dataclass(frozen=True)
class _Log:
    client: Any
    run: RunHandle[Any, Any]
    summary: ResponseBody

    def write(self, experiment: str, model_id: str | None) -> str:
        """Write everything; the status comes last, so a run that looks finished is whole."""
        mlflow_run = self._run_of(experiment)
        figures = figures_of(self.summary)
        entities = importlib.import_module("mlflow.entities")
        stamp = int((self.run.run.ended_at or self.run.run.created_at).timestamp() * 1000)
        batch = [
            entities.Metric(name, value, stamp, 0, model_id=model_id)
            for name, value in sorted(figures.items())
        ]
        for first in range(0, len(batch), MOST_AT_ONCE):
            self.client.log_batch(mlflow_run, metrics=batch[first : first + MOST_AT_ONCE])
        known = self.client.get_run(mlflow_run).data.params
        new = [entities.Param(*each) for each in params(self.run.run.resolved_config) if each[0] not in known]
        self.client.log_batch(mlflow_run, params=new[:100])
        for name, value in self._tags().items():
            self.client.set_tag(mlflow_run, name, value[:LONGEST_TAG])
        if model_id is not None:
            self.client.set_logged_model_tags(model_id, {"counterpose": self._verdict()[:LONGEST_TAG]})
        with tempfile.TemporaryDirectory() as folder:
            self._log_files(mlflow_run, Path(folder))
        self.client.set_terminated(mlflow_run, "FINISHED")
        return mlflow_run

    def _log_files(self, mlflow_run: str, folder: Path) -> None:
        summary = folder / "summary.json"
        summary.write_text(self.summary.model_dump_json(indent=2, by_alias=True), encoding="utf-8")
        report = self.run.save_report(folder / "report.html")
        for file in (report, summary, write_results(self.run, folder / RESULTS)):
            self.client.log_artifact(mlflow_run, str(file))
        for row in islice(rows(self.run, self.summary), MOST_PAIRS):
            for file in row.save(folder):
                self.client.log_artifact(mlflow_run, str(file), PAIRS)

    def _run_of(self, experiment: str) -> str:
        """Return the MLflow run that an earlier call began, or a new one."""
        found = self.client.get_experiment_by_name(experiment)
        number = self.client.create_experiment(experiment) if found is None else found.experiment_id
        begun = self.client.search_runs([number], f"tags.`{RUN_TAG}` = '{self.run.id}'", max_results=1)
        if begun:
            return str(begun[0].info.run_id)
        name = f"{self.run.run.kind} {self.run.id[:8]}"
        made = self.client.create_run(number, tags={RUN_TAG: self.run.id}, run_name=self.run.run.name or name)
        return str(made.info.run_id)

    def _tags(self) -> dict[str, str]:
        verdicts = self.summary.verdicts if isinstance(self.summary, StressTestSummary) else []
        states = {f"counterpose.verdict.{named(each.classifier)}": each.state for each in verdicts}
        return {
            RUN_TAG: self.run.id,
            "counterpose.kind": self.run.run.kind,
            "counterpose.state": self.run.run.state,
            "counterpose.page": self.run.page,
            "counterpose.verdict": self._verdict(),
            **states,
        }

    def _verdict(self) -> str:
        return str(getattr(self.summary, "verdict", "")) or str(self.run.run.state)
