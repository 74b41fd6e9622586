"""Runs in trackio's own database: `make test-trackers`."""

from __future__ import annotations

import html
import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from counterpose import StressTest, log_to_trackio
from counterpose_core.errors import BackendUnavailable

# It reads them when it is imported.
os.environ["TRACKIO_DIR"] = tempfile.mkdtemp(prefix="counterpose-trackio-")
trackio: Any = importlib.import_module("trackio")
pytestmark = pytest.mark.filterwarnings("ignore")


def rows(project: str, run_id: str) -> list[dict[str, Any]]:
    """What trackio's database has of a run, a row for each step."""
    [found] = [each for each in trackio.Api().runs(project) if each.name.endswith(run_id)]
    storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
    return list(storage.get_logs(project, found.name, run_id=found.id))


def test_figures_table_images_and_report_are_in_the_database(run: StressTest) -> None:
    mine = trackio.init(project="mine", name="mine", embed=False)
    log_to_trackio(run, project="pets")
    assert trackio.context_vars.current_run.get() is mine
    mine.finish()
    [told] = rows("pets", run.id)
    summary = run.summary()
    for name, model in summary.models.items():
        assert told[f"models/{name}/drop"] == pytest.approx(model.drop.estimate)
        assert told[f"models/{name}/drop.low"] == pytest.approx(model.drop.low)
        assert told[f"models/{name}/drop.n"] == model.drop.n
    shown = told["findings"]["_value"]
    assert [each["class"] for each in shown] == [each.object_class for each in summary.insights]
    item = run.item(summary.insights[0].example_item)
    assert item.result is not None
    for column, ref in (("source", item.source_image), ("counterfactual", item.result.image)):
        saved = Path(trackio.TRACKIO_DIR) / "media" / shown[0][column]["file_path"]
        assert saved.read_bytes() == run.image(ref)
    assert shown[0]["sentence"] == html.escape(summary.insights[0].sentence)
    report = Path(trackio.TRACKIO_DIR) / "media" / told["report"]["file_path"]
    assert "<html" in report.read_text(encoding="utf-8")


def test_a_second_call_goes_to_the_same_run(run: StressTest) -> None:
    log_to_trackio(run, project="again")
    log_to_trackio(run, project="again")
    assert len(rows("again", run.id)) == 2


def test_a_database_that_cannot_be_written_is_no_success(
    run: StressTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "bulk_log", full)
    monkeypatch.setattr(storage, "log", full)
    with pytest.raises(BackendUnavailable, match="wrote nothing"):
        log_to_trackio(run, project="full")
