"""The images of a proof: which are left, whose captions are read, and when images are drawn again."""

from __future__ import annotations

import pytest

from counterpose_core.contract.confirmation import SuspectedChange, Wording
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.confirm.proof_stages import (
    LeftImages,
    SourceImage,
    config_of_child,
    first_stage,
    left_images,
    must_draw,
)
from counterpose_gateway.methods.stress_test.observations.observations import Observation
from counterpose_gateway.methods.stress_test.plan import resolve
from counterpose_gateway.methods.stress_test.screen.items import items_hash
from fakes.findings import a_finding
from fakes.runs import stress_test_request
from fakes.world import CAPTION, FakeWorld, fake_dataset, fake_suite

PROOF = Proof(
    parent="run-1",
    finding=a_finding(),
    change=SuspectedChange(edit_type="background", removed="grass", added="snow"),
    wordings=[Wording(removed="on the grass", added="in the snow")],
    images=6,
    family=3,
)
GRASS = CAPTION.format(label="sled")
WOOD = "a photo of a red sled in the wood"


def sleds(number: int, caption: str | None = None) -> list[Source]:
    """So many images of the finding's class."""
    world = FakeWorld()
    return [world.source("sled", index, caption=caption) for index in range(number)]


def seen(source: Source, kind: ItemKind = "edit", caption: str = GRASS) -> Observation:
    """An item that was made of an image."""
    return Observation(
        id=f"{source.id}/{kind}", kind=kind, source=source.id, image=source.image, label=source.label,
        edit_type=None, slot=0, stage=1, state="done", reason=None, caption=caption, removed="", added="",
        after={}, before={}, instruction=None, unit=source.group or source.id,
    )  # fmt: skip


def left(sources: list[Source], *used: Observation, seed: int = 3) -> LeftImages:
    """What is left after these items."""
    captions = {each.source: each.caption for each in used if each.caption}
    tried = [SourceImage(each.source, each.image, each.unit) for each in used if each.kind != "caption"]
    return left_images(sources, PROOF, seed=seed, tried=tried, captions=captions)


def test_an_image_with_any_pair_is_spent_and_one_with_a_caption_alone_is_not() -> None:
    sources = sleds(4)
    found = left(sources, seen(sources[0]), seen(sources[1], "placebo"), seen(sources[2], "caption"))
    assert [each.id for each in found.applicable] == ["sled-2"]
    assert found.applicable[0].caption == GRASS
    assert [each.id for each in found.unread] == ["sled-3"]
    assert {each.id for each in found.spent} == {"sled-0", "sled-1"}


def test_the_same_image_in_another_dataset_is_spent_too() -> None:
    source = sleds(1)[0]
    copy = source.model_copy(update={"id": "other"})
    assert left([copy], seen(source)).unread == []


def test_a_group_is_left_once_and_spent_as_a_whole() -> None:
    frames = [
        source.model_copy(update={"group": f"video-{index // 2}"}) for index, source in enumerate(sleds(8))
    ]
    used, read, copy = frames[0], frames[2], frames[4].model_copy(update={"id": "other", "group": None})
    found = left(frames, seen(used), seen(read, "caption"), seen(copy, "placebo"))
    assert [each.id for each in found.applicable] == ["sled-2"]
    assert [each.id for each in found.unread] == ["sled-6"]
    assert [each.id for each in found.spent] == ["sled-0"]
    assert left(frames, seen(used), seed=3).to_read(8)[0].group != "video-0"


def test_images_of_other_classes_are_no_help() -> None:
    assert left(FakeWorld().sources(3, ("boat",))).unread == []


def test_images_whose_caption_names_nothing_to_change_are_left_out() -> None:
    found = left(sleds(2, WOOD) + sleds(5)[2:])
    assert (found.applicable, found.others) == ([], 2)
    assert len(found.unread) == 3


def test_the_seed_draws_the_order() -> None:
    orders = [[each.id for each in left(sleds(20), seed=seed).unread] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_images_that_surely_fit_are_taken_first_and_no_more_captions_than_needed_are_read() -> None:
    sources = sleds(40)
    captioned = [seen(each, "caption") for each in sources[:5]]
    found = left(sources, *captioned)
    assert found.share == pytest.approx(6 / 7)
    assert {each.id for each in found.to_read(4)} <= {each.id for each in sources[:5]}
    assert len(found.to_read(4)) == 4
    # Five fit for sure; three more of seven that fit take four.
    assert len(found.to_read(8)) == 5 + 4


def test_captions_that_rarely_fit_make_the_run_read_more_of_them() -> None:
    sources = sleds(90)
    rarely = [seen(each, "caption", GRASS if index < 2 else WOOD) for index, each in enumerate(sources[:10])]
    assert left(sources, *rarely).share == pytest.approx(3 / 12)
    assert len(left(sources, *rarely).to_read(6)) == 2 + 16


def parent(*, redraw: str | None = None) -> StressTestConfig:
    """The configuration of the run that has the finding."""
    return resolve(
        stress_test_request(limit=5, exclude=["sled/1.png"]),
        dataset=fake_dataset(40),
        suite=fake_suite(redraw=redraw),
    )


def child(config: StressTestConfig) -> StressTestConfig:
    """The configuration of a run that proves it."""
    return config_of_child(
        config, PROOF, dataset="more", dataset_digest="e" * 64, seed=9, versions={"counterpose": "9"}
    )


def test_a_child_depends_on_all_that_its_run_does_but_one_classifier_and_one_change() -> None:
    made, config = child(parent()), parent()
    request = made.request
    assert (request.dataset, request.classifiers, request.edit_types) == ("more", ["leaning"], ["background"])
    assert (request.limit, request.confirm, request.seed, request.preset) == (
        None, False, 9, config.request.preset,
    )  # fmt: skip
    assert (made.preset, made.gate, made.text, made.classes) == (
        config.preset, config.gate, config.text, config.classes,
    )  # fmt: skip
    assert (made.proof, made.versions, made.dataset_digest) == (PROOF, {"counterpose": "9"}, "e" * 64)


def test_what_a_run_proves_changes_no_item_key() -> None:
    config = parent()
    assert items_hash(config) == items_hash(config.model_copy(update={"proof": PROOF}))


def test_images_are_drawn_again_only_where_none_is_left_and_two_can_be() -> None:
    sources = sleds(3)
    none_left = left(sources, *map(seen, sources))
    assert not must_draw(none_left, parent())
    assert must_draw(none_left, parent(redraw="virtual"))
    assert not must_draw(left(sources, seen(sources[0]), seen(sources[1])), parent(redraw="virtual"))
    assert not must_draw(left(sources[:1], seen(sources[0])), parent(redraw="virtual"))


def test_the_first_stage_of_a_child_has_captions_alone() -> None:
    sources = sleds(9)
    items = first_stage(child(parent()), left(sources, seen(sources[0], "caption")), 2)
    assert {item.kind for item in items} == {"caption"}
    assert [item.caption for item in items if item.item_group == "sled-0"] == [GRASS]
    assert [item.ordinal for item in items] == list(range(len(items)))


def test_a_child_that_draws_starts_from_the_images_that_have_a_pair() -> None:
    sources = sleds(7)
    drawing = child(parent(redraw="virtual"))
    again = drawing.model_copy(update={"proof": PROOF.model_copy(update={"drawn": True})})
    items = first_stage(again, left(sources, *map(seen, sources)), 12)
    assert len(items) == 5
    assert {item.caption for item in items} == {GRASS}
