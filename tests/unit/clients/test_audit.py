"""``audit`` of a run by both clients and by the command, against a scripted gateway."""

from __future__ import annotations

import hashlib
import json

import httpx
import numpy as np
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.errors import ArtifactMissing
from counterpose_core.images.codecs import XMP_KEYWORD, encode_png
from counterpose_core.types import ItemKind
from fakes.command import Play, run
from fakes.sdk import Session, a_run, an_event, ok, problem, run_answer, stream_answer

REF, SOURCE = "a" * 64, "b" * 64
MARKS = {"synthetic": "true", XMP_KEYWORD: "DigitalSourceType=trainedAlgorithmicMedia"}


def an_item(ordinal: int, kind: ItemKind = "edit", image: str = REF) -> Item:
    return Item(
        id=f"run-1.{ordinal}", ordinal=ordinal, kind=kind, item_group="s", source_image=SOURCE, label="bus",
        slot=0, stage=1, state="done", attempts=1, result=ItemResult(image=image, caption="a bus"),
    )  # fmt: skip


def an_image(**marks: str) -> httpx.Response:
    return httpx.Response(200, content=encode_png(np.zeros((2, 2, 3), np.uint8), text=marks))


def results(*items: Item) -> httpx.Response:
    lines = "".join(f"{item.model_dump_json()}\n" for item in items)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return httpx.Response(200, text=f"{lines}{json.dumps({'lines': len(items), 'sha256': digest})}\n")


def page(*items: Item) -> httpx.Response:
    return ok({"items": [json.loads(item.model_dump_json()) for item in items], "after": None})


ITEMS = [an_item(ordinal) for ordinal in range(3)]
ANSWERS = [
    run_answer("completed", 3), stream_answer(an_event(1), an_event(7, "completed", 3)), page(*ITEMS),
    results(*ITEMS), an_image(**MARKS), run_answer("completed", 3),
]  # fmt: skip


def test_the_whole_run_is_read_once(kind: str) -> None:
    session = Session(kind, run_answer("completed", 3), *ANSWERS)
    handle = session(lambda client: client.stress_tests.get("run-1"))
    found = session(lambda _: handle.audit())
    assert (found.passed, found.items, found.images, found.events) == (True, 3, 1, 2)
    assert session.seen[2].headers["last-event-id"] == "0"


# A caption of a fresh image, a photograph of a hunt, a real image of a benchmark: nothing was made.
@pytest.mark.parametrize("item_kind", ["caption", "sample", "image"])
def test_a_source_image_needs_no_mark_of_a_synthetic_one(kind: str, item_kind: ItemKind) -> None:
    items = [*ITEMS[:2], an_item(2, item_kind, SOURCE)]
    answers = [*ANSWERS[:2], page(*items), results(*items), ANSWERS[4], an_image(), ANSWERS[5]]
    session = Session(kind, run_answer("completed", 3), *answers)
    handle = session(lambda client: client.stress_tests.get("run-1"))
    found = session(lambda _: handle.audit())
    assert (found.violations, found.images) == ([], 2)


def test_an_image_that_is_not_served_and_results_that_differ_are_violations(kind: str) -> None:
    other = ITEMS[1].model_copy(update={"attempts": 2})
    answers = [*ANSWERS[:3], results(ITEMS[0], other, ITEMS[2]), problem(ArtifactMissing("gone")), ANSWERS[5]]
    session = Session(kind, run_answer("completed", 3), *answers)
    handle = session(lambda client: client.stress_tests.get("run-1"))
    found = session(lambda _: handle.audit())
    assert [each.invariant for each in found.violations] == ["exactly-once", "artifact-before-row"]


def test_the_command_passes_a_run_that_keeps_its_invariants(play: Play) -> None:
    play(run_answer("completed", 3), *ANSWERS)
    result = run("audit", a_run().id)
    assert (result.exit_code, result.stdout) == (
        ExitCode.PASSED,
        "run run-1 is completed and keeps its invariants: 3 items, 1 images, 2 events\n",
    )


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_fails_for_a_violation_and_says_which(play: Play, as_json: bool) -> None:
    play(run_answer("completed", 3), *ANSWERS[:4], an_image(), ANSWERS[5])
    result = run("audit", a_run().id, *(["--json"] if as_json else []))
    assert result.exit_code == ExitCode.FAILED
    said = json.loads(result.stdout)["violations"][0] if as_json else result.stdout.splitlines()[1]
    what = f"image {REF} is served without the mark of a synthetic image"
    assert said == ({"invariant": "marked", "what": what} if as_json else f"marked: {what}")


def test_a_run_that_goes_on_is_not_audited(play: Play) -> None:
    play(run_answer("in_progress", 1), run_answer("in_progress", 1))
    result = run("audit", a_run().id)
    assert result.exit_code == ExitCode.USAGE
    assert "wait until it has ended" in result.stderr
