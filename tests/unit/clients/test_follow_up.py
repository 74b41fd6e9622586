"""Applying a finding to a whole dataset: which words, which settings, and who is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterpose_core.contract.findings import FindingPair, WordingCount
from counterpose_core.contract.proofs import FindingHistory
from counterpose_core.errors import InvalidRequest, NotFound
from fakes.findings import a_finding
from fakes.sdk import Session, a_run, ok, problem, run_answer
from fakes.world import fake_dataset

CONFIG = {
    "request": {
        "dataset": "demo", "classifiers": ["steady", "oip:http://127.0.0.1:9/v2/models/mine"],
        "edit_types": ["domain"], "max_edits_per_image": 4, "preset": "lance", "selection": "released",
        "limit": 7, "exclude": ["bus/1.png"], "seed": 3, "known_to_later_versions": True,
    }
}  # fmt: skip
CAPTION = "A photo of a bus on the grass next to a dog."


def told(removed: str, added: str, *wordings: tuple[str, str]) -> FindingHistory:
    """A finding of these words; its first image is item i1."""
    finding = a_finding(
        number=1, removed=removed, added=added,
        wordings=[WordingCount(removed=old, added=new, n=9) for old, new in wordings],
        pairs=[FindingPair(source="s", control=None, edit="i1", loss=0.5, answer="dog")],
    )  # fmt: skip
    return FindingHistory(
        run_id="run-0", told=finding, finding=finding, runs=[], pairs=[], e_value=1.0, e_value_needed=20.0,
        family=1, images_needed=None,
    )  # fmt: skip


def item(edited: str | None, identity: str = "i1") -> dict[str, Any]:
    """An edit of the caption."""
    result = {"image": "a" * 64, "caption": CAPTION, "edited_caption": edited}
    return {
        "id": identity, "ordinal": 0, "kind": "edit", "item_group": "s", "source_image": "a" * 64,
        "label": "bus", "state": "done", "result": result,
    }  # fmt: skip


def applied(
    kind: str, history: FindingHistory, *items: dict[str, Any], **options: Any
) -> tuple[Any, list[Any]]:
    """Apply the finding; what came back, and the requests that were sent."""
    run = a_run("completed", 3).model_copy(update={"resolved_config": CONFIG})
    answers = [ok(body.model_dump_json()) for body in (run, history)]
    session = Session(kind, *answers, *map(ok, items), ok(a_run(run_id="run-2").model_dump_json()))
    made = session(lambda client: client.stress_tests.apply("run-1", 1, **options))
    return made, session.seen


@pytest.mark.paper("LANCE-AB-apply-all")
@pytest.mark.paper("LANCE-F9-apply-all")
def test_the_finding_s_words_are_the_only_edit_of_the_new_run(kind: str) -> None:
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
    _, seen = applied(kind, told(removed, added), item(edited))
    # Its items are those of the run that has the finding, which a proof may only continue.
    assert seen[2].url.path == "/v1/runs/run-0/items/i1"
    [intervention] = json.loads(seen[-1].content)["interventions"]
    assert (intervention["removed"], intervention["added"]) == expected


@pytest.mark.parametrize(
    ("said", "wordings", "expected"),
    [
        (("ball", ""), [("ball", "person"), ("ball", "")], ("ball", "person")),
        (("ball", ""), [("a ball", ""), ("ball", "person")], ("a ball", "")),
        (("", "person"), [("ball", "person")], ("ball", "person")),
        (("ball", "person"), [("a ball", "")], ("ball", "person")),
    ],
)
def test_a_side_that_is_left_open_has_the_words_of_most_images(
    kind: str, said: tuple[str, str], wordings: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    _, seen = applied(kind, told(*said, *wordings))
    [intervention] = json.loads(seen[-1].content)["interventions"]
    assert (intervention["removed"], intervention["added"]) == expected


def test_an_image_shows_where_added_words_go(kind: str) -> None:
    _, seen = applied(
        kind,
        told("", "striped", ("", "striped")),
        item("A photo of a striped bus on the grass next to a dog."),
    )
    [intervention] = json.loads(seen[-1].content)["interventions"]
    assert (intervention["removed"], intervention["added"]) == ("bus", "striped bus")


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (item(None), "its example 'i1' has no edited caption"),
        (item("A sketch of a bus on the grass next to a cat."), "in several places"),
    ],
)
def test_an_example_without_a_single_change_is_rejected(kind: str, shown: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        applied(kind, told("", ""), shown)


def test_an_unknown_finding_is_rejected_as_for_a_proof(kind: str) -> None:
    session = Session(kind, run_answer(), problem(NotFound("run 'run-1' has no finding 2: it has 1")))
    with pytest.raises(NotFound, match="no finding 2: it has 1"):
        session(lambda client: client.stress_tests.apply("run-1", 2))
    assert session.seen[-1].url.path == "/v1/runs/run-1/findings/2"


OPERATIONS = {"operations": ["rotation", "fog"], "levels": [1, 3], "size": 224, "among": "model"}
OF_OPERATIONS = {
    "request": {
        "dataset": "demo", "classifiers": ["steady"], "label_map": {"bus": ["minibus"]}, "limit": 7,
        "exclude": ["bus/1.png"], "max_edits_per_image": 0, "seed": 3, "transforms": OPERATIONS,
    }
}  # fmt: skip


def of_one_class(kind: str, classes: list[str]) -> Any:
    """Apply a finding of fog on the class bus to the dataset ``more``; the transforms that are asked for."""
    history = told("", "has fog of level 3")
    fog = history.told.model_copy(update={"edit_type": "fog", "object_class": "bus", "pairs": []})
    bodies = (
        a_run("completed", 3).model_copy(update={"resolved_config": OF_OPERATIONS}),
        history.model_copy(update={"told": fog}),
        fake_dataset(9, tuple(classes)),
        a_run(),
    )
    session = Session(kind, *(ok(body.model_dump_json()) for body in bodies))
    session(lambda client: client.stress_tests.apply("run-1", 2, dataset="more"))
    return json.loads(session.seen[-1].content)["transforms"]


def test_an_operation_s_finding_of_one_class_changes_its_images_alone(kind: str) -> None:
    asked = of_one_class(kind, ["bus", "sled", "dog"])
    assert asked == OPERATIONS | {"operations": ["fog"], "excluded": {"sled": ["fog"], "dog": ["fog"]}}
    with pytest.raises(InvalidRequest, match="finding 1 is of the class 'bus', which the dataset has not"):
        of_one_class(kind, ["sled", "dog"])


@pytest.mark.parametrize(("dataset", "exclude"), [(None, ["bus/1.png"]), ("more", [])])
def test_an_operation_is_applied_alone_to_the_images_that_are_named(
    kind: str, dataset: str | None, exclude: list[str]
) -> None:
    history = told("", "has fog of level 3")
    fog = history.told.model_copy(update={"edit_type": "fog", "object_class": "", "pairs": []})
    history = history.model_copy(update={"told": fog})
    # Left out of fog: a class that the dataset has, and one that it lacks; of another operation a third.
    excluded = {"sled": ["rotation", "fog"], "kite": ["fog"], "bus": ["rotation"]}
    request = OF_OPERATIONS["request"] | {"transforms": OPERATIONS | {"excluded": excluded}}
    bodies = (
        a_run("completed", 3).model_copy(update={"resolved_config": {"request": request}}),
        history,
        fake_dataset(9, ("bus", "sled")),
        a_run(),
    )
    session = Session(kind, *(ok(body.model_dump_json()) for body in bodies))
    session(lambda client: client.stress_tests.apply("run-1", 2, dataset=dataset))
    assert json.loads(session.seen[-1].content) == {
        "dataset": dataset or "demo", "classifiers": ["steady"], "label_map": {"bus": ["minibus"]},
        "exclude": exclude, "seed": 4, "applied_from": "run-1",
        "transforms": OPERATIONS | {"operations": ["fog"], "excluded": {"sled": ["fog"]}},
        "max_edits_per_image": 0, "lance_r_edits_per_image": 0,
    }  # fmt: skip
