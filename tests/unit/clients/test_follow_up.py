"""Applying an insight to a whole dataset: which words, which settings, and who is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterpose_core.contract.stress_tests import Insight, StressTestSummary
from counterpose_core.errors import InvalidRequest
from fakes.sdk import Session, a_run, a_summary, figure, ok, run_answer, summary_answer

CONFIG = {
    "request": {
        "dataset": "demo", "classifiers": ["steady", "oip:http://127.0.0.1:9/v2/models/mine"],
        "edit_types": ["domain"], "max_edits_per_image": 4, "preset": "lance", "selection": "released",
        "limit": 7, "exclude": ["bus/1.png"], "seed": 3, "known_to_later_versions": True,
    }
}  # fmt: skip
CAPTION = "A photo of a bus on the grass next to a dog."


def told(removed: str, added: str) -> StressTestSummary:
    """A run with one insight of these words, the words of its example aside."""
    insight = Insight(
        classifier="steady", object_class="bus", edit_type="background", removed=removed, added=added,
        delta_p=figure(-0.5, -0.6, -0.4), example_item="i1", sentence="It falls.",
    )  # fmt: skip
    return a_summary(steady=figure()).model_copy(update={"insights": [insight], "config": CONFIG, "seed": 3})


def item(edited: str | None, identity: str = "i1") -> dict[str, Any]:
    """An edit of the caption."""
    result = {"image": "a" * 64, "caption": CAPTION, "edited_caption": edited}
    return {
        "id": identity, "ordinal": 0, "kind": "edit", "item_group": "s", "source_image": "a" * 64,
        "label": "bus", "state": "done", "result": result,
    }  # fmt: skip


def applied(
    kind: str, summary: StressTestSummary, *items: dict[str, Any], **options: Any
) -> tuple[Any, list[Any]]:
    """Apply its first insight; what came back, and the requests that were sent."""
    created = ok(a_run(run_id="run-2").model_dump_json())
    pages = [ok({"items": list(items)})] if items else []
    session = Session(kind, run_answer(), summary_answer(summary), *pages, created)
    made = session(lambda client: client.stress_tests.apply("run-1", 1, **options))
    return made, session.seen


@pytest.mark.paper("LANCE-AB-apply-all")
@pytest.mark.paper("LANCE-F9-apply-all")
def test_the_insight_s_words_are_the_only_edit_of_the_new_run(kind: str) -> None:
    made, seen = applied(kind, told("on the grass", "in the snow"))
    assert made.id == "run-2"
    assert [request.method for request in seen] == ["GET", "GET", "POST"]
    assert json.loads(seen[-1].content) == {
        "dataset": "demo", "classifiers": CONFIG["request"]["classifiers"], "preset": "lance",
        "selection": "released", "exclude": ["bus/1.png"], "seed": 4, "max_edits_per_image": 0,
        "lance_r_edits_per_image": 0, "applied_from": "run-1",
        "interventions": [{"removed": "on the grass", "added": "in the snow"}],
    }  # fmt: skip


def test_apply_uses_the_given_seed(kind: str) -> None:
    _, seen = applied(kind, told("grass", "snow"), seed=0)
    assert json.loads(seen[-1].content)["seed"] == 0


@pytest.mark.parametrize(
    ("removed", "added", "edited", "expected"),
    [
        ("on the grass", "", "A photo of a bus in the snow next to a dog.", ("on the grass", "in the snow")),
        ("", "", "A painting of a bus on the grass next to a dog.", ("photo", "painting")),
        ("", "striped", "A photo of a striped bus on the grass next to a dog.", ("bus", "striped bus")),
        ("", "in snow", "A photo of a bus on the grass next to a dog in snow.", ("", "in snow")),
        ("next to a dog", "", "A photo of a bus on the grass.", ("next to a dog", "")),
        ("on … grass", "", "A photo of a bus by the snow next to a dog.", ("on the grass", "by the snow")),
    ],
)  # fmt: skip
def test_open_words_are_taken_from_the_example(
    kind: str, removed: str, added: str, edited: str, expected: tuple[str, str]
) -> None:
    other = item("A photo of a ship.", "i0")
    _, seen = applied(kind, told(removed, added), other, item(edited))
    [intervention] = json.loads(seen[-1].content)["interventions"]
    assert (intervention["removed"], intervention["added"]) == expected


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([item(None)], "its example 'i1' has no edited caption"),
        ([item("A photo.", "i0")], "its example 'i1' has no edited caption"),
        ([item("A sketch of a bus on the grass next to a cat.")], "in several places"),
    ],
)
def test_an_example_without_a_single_change_is_rejected(
    kind: str, items: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        applied(kind, told("", ""), *items)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_unknown_insight_is_rejected(kind: str, number: int) -> None:
    session = Session(kind, run_answer(), summary_answer(told("a", "b")))
    with pytest.raises(InvalidRequest, match=f"no insight {number}: it has 1"):
        session(lambda client: client.stress_tests.apply("run-1", number))
