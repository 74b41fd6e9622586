"""An item is read from its documents as its model says it, and equal parts of many items are one."""

from __future__ import annotations

import pytest

from counterpose_core.contract.bug_hunts import HuntInstruction, HuntItem
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem, ReadItem, read_items
from counterpose_gateway.records.recorded_items import RecordedItem
from fakes.hunted_items import caption, clustering, combination, sample

DESCRIBED = HuntInstruction(phase="hypothesis", hypothesis=2, prompt="a fly in the snow", source="words")


def read(*items: HuntItem) -> list[ReadItem]:
    return list(read_items(map(RecordedItem.of, items)))


@pytest.mark.parametrize(
    "item",
    [
        sample(1, "bee", seconds=2.0, others={"control": "fly"}, similarity=None, place=7),
        sample(1).model_copy(update={"state": "failed", "code": "bad-backend-output", "result": None}),
        sample(1).model_copy(update={"state": "filtered", "reason": "objectionable"}),
        sample(1).model_copy(update={"instruction": None}),
        caption(sample(1), "a fly in the snow"),
        clustering({"a" * 64: 1}),
        combination(["in the snow", "at night"]),
    ],
    ids=["sample", "failed", "filtered", "damaged", "caption", "clustering", "combination"],
)
def test_an_item_is_read_as_its_model_says_it(item: HuntItem) -> None:
    (found,) = read(item)
    model: HuntedItem = item
    for name in ReadItem._fields[:-1]:
        assert getattr(found, name) == getattr(model, name), name
    if found.result is None or model.result is None:
        assert found.result is model.result
        return
    for name in ("image", "caption", "object_similarity", "failed", "clusters", "cost", "service_seconds"):
        assert getattr(found.result, name) == getattr(model.result, name), name
    assert (found.result.began_at, found.result.ended_at) == (model.result.began_at, model.result.ended_at)
    assert list(found.result.combined) == model.result.combined
    assert list(found.result.edited) == model.result.edited
    answers = {name: (pair.right, pair.answer) for name, pair in model.result.predictions.items()}
    assert {name: (each.right, each.answer) for name, each in found.result.predictions.items()} == answers


def test_fields_that_an_earlier_version_did_not_record_have_their_defaults() -> None:
    item = RecordedItem.of(sample(1))._replace(result={"image": "a" * 64})
    (found,) = read_items([item])
    assert found.result is not None
    assert (found.result.predictions, found.result.failed, found.result.cost.unet_calls) == ({}, {}, 0)
    assert (found.result.began_at, found.result.caption, found.result.object_similarity) == (None, None, None)


def test_equal_parts_of_many_items_are_one_and_others_are_not() -> None:
    right, same, wrong, described, back = read(
        sample(1), sample(2), sample(3, "bee"), sample(4, told=DESCRIBED), sample(5)
    )
    assert right.instruction is same.instruction is back.instruction
    assert described.instruction == DESCRIBED
    assert right.result is not None
    assert same.result is not None
    assert wrong.result is not None
    assert right.result.predictions is same.result.predictions
    assert wrong.result.predictions["model"].answer == "bee"
    assert (right.result.failed, wrong.result.failed) == ({"model": False}, {"model": True})


def test_an_instruction_that_differs_from_the_last_of_its_prompt_is_read_anew() -> None:
    late = HuntInstruction(phase="hypothesis", hypothesis=2, prompt="a fly in the deep snow")
    found = read(sample(1, told=DESCRIBED), sample(2, told=late), sample(3, told=DESCRIBED))
    assert [each.instruction for each in found] == [DESCRIBED, late, DESCRIBED]
