"""Runs in Weights & Biases' own client, offline: `make test-trackers`."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from counterpose import StressTest, log_to_wandb
from counterpose_core.errors import InvalidRequest
from trackers.wandb_file import artifact_of, summary_of

wandb: Any = importlib.import_module("wandb")
# W&B's own, and those of what it imports.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where W&B writes; no account of this machine is known."""
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return tmp_path


def test_figures_table_images_and_report_are_written_offline(run: StressTest, folder: Path) -> None:
    mine = wandb.init(project="mine", mode="offline")
    assert log_to_wandb(run, mode="offline") == run.id
    assert wandb.run is mine
    mine.finish()
    [written] = (folder / "wandb").glob(f"offline-run-*-{run.id}")
    files = written / "files"
    told = summary_of(written / f"run-{run.id}.wandb")
    summary = run.summary()
    for name, model in summary.models.items():
        assert told[f"models/{name}/drop"] == pytest.approx(model.drop.estimate)
        assert told[f"models/{name}/drop.n"] == model.drop.n
        assert told[f"models/{name}/drop.high"] == pytest.approx(model.drop.high)
    assert told["verdict"] == summary.verdict
    table = artifact_of(written / f"run-{run.id}.wandb")
    shown = json.loads(table["findings.table.json"].read_bytes())
    assert len(shown["data"]) == len(summary.insights)
    first = dict(zip(shown["columns"], shown["data"][0], strict=True))
    insight = summary.insights[0]
    assert (first["classifier"], first["class"]) == (insight.classifier, insight.object_class)
    assert (first["loss"], first["n"]) == (pytest.approx(-(insight.delta_p.estimate or 0)), insight.delta_p.n)
    item = run.item(insight.example_item)
    assert item.result is not None
    for column, ref in (("source", item.source_image), ("counterfactual", item.result.image)):
        assert table[first[column]["path"]].read_bytes() == run.image(ref)
    [report] = (files / "media/html").glob("report*.html")
    assert report.read_text(encoding="utf-8") == run.report()


def test_without_an_account_the_login_is_named(run: StressTest, folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="`wandb login` sets the account"):
        log_to_wandb(run, mode="online")
