"""What trackers are told of a run, and what is refused first; the real ones: `make test-trackers`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from counterpose import log_to_trackio, log_to_wandb
from counterpose._trackers.figures import metrics, params
from counterpose._trackers.findings import rows
from counterpose._trackers.mlflow import mlflow_client
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.installation import adding
from counterpose_core.tasks.classification import ranked
from fakes.findings import a_confirmation, a_finding, a_pair
from fakes.sdk import Session, a_summary, figure, ok, problem, run_answer, summary_answer


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "./mlruns"])
def test_a_store_of_files_is_refused_with_what_to_do(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", ModuleType("mlflow"))
    with pytest.raises(InvalidRequest, match=r"sqlite:///mlflow\.db"):
        mlflow_client(uri)


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidRequest, match=re.escape(adding("mlflow"))):
        mlflow_client("http://127.0.0.1:5000")


def test_names_have_the_letters_that_mlflow_takes() -> None:
    figures = {"models": {"oip:http://x/y?z": {"drop": {"estimate": 0.5, "low": None, "high": 1.0, "n": 4}}}}
    assert dict(metrics(figures)) == {
        "models/oip_http_//x/y_z/drop": 0.5,
        "models/oip_http_//x/y_z/drop.high": 1.0,
        "models/oip_http_//x/y_z/drop.n": 4.0,
    }
    assert dict(metrics({"findings": [1, 2], "note": "text", "on": True, "none": None})) == {"findings": 2.0}


def test_parameters_are_flat_and_cut() -> None:
    found = dict(params({"request": {"seed": 3, "none": None}, "classes": ["x"] * 400, "suite": "tiny"}))
    assert (found["request.seed"], found["suite"]) == ("3", "tiny")
    assert "request.none" not in found
    assert len(found["classes"]) == 500
    assert json.loads(found["request.seed"]) == 3


SOURCE, EDIT = "a" * 64, "b" * 64


def an_item() -> Item:
    """An edit of a sled that one classifier takes for a boat."""
    before, after = (
        ranked(p, rank, [(answer, 0.9)]) for p, rank, answer in ((0.9, 1, "sled"), (0.1, 2, "boat"))
    )
    return Item(
        id="edit-1", ordinal=0, kind="edit", item_group="source", source_image=SOURCE, label="sled",
        state="done",
        result=ItemResult(
            image=EDIT, caption="a sled on grass", edited_caption="a sled on snow",
            predictions={"leaning": after}, original_predictions={"leaning": before},
        ),
    )  # fmt: skip


def a_run_with(*answers: httpx.Response) -> Any:
    """The handle of a stress test whose gateway answers so."""
    return Session("sync", run_answer("completed", 3), *answers)(
        lambda client: client.stress_tests.get("run-1")
    )


def test_a_finding_is_a_row_with_its_interval_and_its_median_pair(tmp_path: Path) -> None:
    found = a_finding(state="breaks", confirmed=a_confirmation(), pairs=[a_pair("edit-1")])
    gone = a_finding(number=2, pairs=[a_pair("edit-2")])
    summary = a_summary(leaning=figure()).model_copy(update={"findings": [found, gone]})
    png = [httpx.Response(200, content=data) for data in (b"before", b"after")]
    run = a_run_with(ok(an_item().model_dump_json()), *png, problem(NotFound("no item 'edit-2'")))
    [row] = rows(run, summary)
    assert row.values == {
        "finding": 1, "state": "breaks", "classifier": "leaning", "class": "sled",
        "change": "background: grass → snow", "caption": "a sled on grass",
        "edited caption": "a sled on snow", "answer": "boat", "p source": 0.9, "p counterfactual": 0.1,
        "loss": 0.62, "low": 0.41, "high": 0.78, "n": 12, "flipped": 4, "of": 4, "sentence": found.sentence,
    }  # fmt: skip
    assert [file.read_bytes() for file in row.save(tmp_path)] == [b"before", b"after"]


def test_a_suspicion_has_no_interval() -> None:
    summary = a_summary(leaning=figure()).model_copy(
        update={"findings": [a_finding(pairs=[a_pair("edit-1")])]}
    )
    png = httpx.Response(200, content=b"png")
    [row] = rows(a_run_with(ok(an_item().model_dump_json()), png, png), summary)
    assert [row.values[name] for name in ("loss", "low", "high", "n")] == [0.7, None, None, 4]


@pytest.mark.parametrize(("log", "package"), [(log_to_wandb, "wandb"), (log_to_trackio, "trackio")])
def test_a_tracker_that_is_not_installed_and_a_run_that_goes_on_are_refused(
    log: Callable[[Any], str], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidRequest, match=f"pip install {package}"):
        log(a_run_with(run_answer("completed", 3), summary_answer(a_summary(leaning=figure()))))
    with pytest.raises(RunNotEnded, match="wait for it"):
        log(a_run_with(run_answer("in_progress", 1)))
