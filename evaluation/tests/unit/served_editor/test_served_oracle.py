"""The server obeys an instruction as the world does, and plants what its plan says, by question."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable

import numpy as np
import pytest

from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.images.masks import Matte, editable
from counterpose_core.text.edit_instruction import TEMPLATES
from counterpose_miniature.world.grammar import caption
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import VALIDATION, scene_for
from evaluation.preservation.planting import CALIBRATION, difference
from evaluation.served_editor.oracle import Answer, Oracle, Question, captions_of, mask_file, question_key
from evaluation.served_editor.plan import FAULTS, OVER_EDITED, PLANS, Plan
from evaluation.validity.sources import image_of
from fakes.images_server import Asked, Reply

SCENE = Scene("bus", "plain", "red", "grass", "clear", "photo", "none", nuisance=110_000_007)
INSTRUCTION = TEMPLATES["both-captions"].instruction


def asked(
    scene: Scene = SCENE, after: Scene | None = None, seed: int = 5, mask: Matte | None = None
) -> Asked:
    prompt = INSTRUCTION(caption(scene), caption(after or scene))
    return Asked("/v1/images/edits", {"prompt": prompt, "seed": str(seed)}, None, render(scene), mask)


def oracle(group: str | None = None) -> tuple[Oracle, dict[str, Answer]]:
    """A server that always does one thing, and what it notes."""
    notes = dict[str, Answer]()
    plan = Plan("test", {} if group is None else {group: 1.0})
    return Oracle(plan, {image_of(SCENE): SCENE}, notes.__setitem__), notes


def pixels(reply: Reply) -> Pixels:
    told = json.loads(reply.content)
    return decode_image(base64.b64decode(told["data"][0]["b64_json"]))


def away(first: Pixels, second: Pixels) -> float:
    """How far two images are from each other, in levels."""
    return float(np.abs(first.astype(int) - second).mean())


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("colour", "blue"),
        ("companion", "dog"),
        ("weather", "night"),
        ("style", "sketch"),
        ("kind", "special"),
    ],
)
def test_an_instruction_is_read_back_and_obeyed(attribute: str, value: str) -> None:
    after = SCENE.changed(attribute, value)
    for before, then in ((SCENE, after), (after, SCENE)):
        captions = caption(before), caption(then)
        assert captions_of(INSTRUCTION(*captions)) == captions
    served, notes = oracle()
    reply = served(asked(after=after), threading.Event())
    assert away(pixels(reply), render(after)) < 2
    (answer,) = notes.values()
    assert answer.group == "obeys"
    assert answer.changes == {attribute: (getattr(SCENE, attribute), value)}
    assert answer.seen


def test_a_change_of_nothing_returns_the_image_under_the_noise_of_its_seed() -> None:
    served, notes = oracle()
    first, second = (pixels(served(asked(seed=seed), threading.Event())) for seed in (5, 6))
    assert 0 < away(first, second) < 4
    assert away(first, render(SCENE)) < 2
    assert (first == pixels(served(asked(seed=5), threading.Event()))).all()
    assert [answer.seen for answer in notes.values()] == [False, False]


def test_what_is_no_instruction_of_the_template_or_no_scene_is_refused() -> None:
    served, _ = oracle()
    other = Asked("/v1/images/edits", {"prompt": "Make it blue.", "seed": "1"}, None, render(SCENE))
    assert (served(other, threading.Event()).status) == 400
    stranger = SCENE.changed("colour", "blue")
    assert served(asked(stranger), threading.Event()).status == 400
    with pytest.raises(ValueError, match="Make it blue"):
        captions_of("Make it blue.")


@pytest.mark.parametrize("group", ["shift", "zoom", "recolour", "leak", "over-edit", "another image"])
def test_a_planted_fault_is_seen_and_noted_with_its_kind(group: str) -> None:
    served, notes = oracle(group)
    after = SCENE.changed("colour", "blue")
    image = pixels(served(asked(after=after), threading.Event()))
    (answer,) = notes.values()
    assert answer.group == group
    assert answer.fault != "none"
    assert difference(render(after), image, np.ones(image.shape[:2], dtype=np.bool_)) > 1
    if group in FAULTS:
        assert answer.fault in FAULTS[group]


@pytest.mark.parametrize("group", ["leak", "over-edit"])
def test_what_is_planted_lies_outside_the_mask(group: str) -> None:
    # Of a companion the exact region is its own: without the mask, most would be planted beside it.
    after = SCENE.changed("companion", "dog")
    around = editable(mask_file(SCENE), "outside", (64, 64))
    served, notes = oracle(group)
    planted = 0
    for seed in range(12):
        transparent = np.where(around, 0, 255).astype(np.uint8)
        image = pixels(served(asked(after=after, seed=seed, mask=transparent), threading.Event()))
        (answer,) = notes.values()
        notes.clear()
        if answer.group == group:
            planted += 1
            inside = np.abs(image.astype(int) - render(after)).max(axis=-1)[~around] > 12
            assert inside.mean() > 0.01
    assert planted > 2


def test_another_seed_of_the_plan_plants_other_faults() -> None:
    def groups(seed: int) -> list[str]:
        notes = dict[str, Answer]()
        plan = Plan("test", PLANS["faulty"].shares, seed)
        served = Oracle(plan, {image_of(SCENE): SCENE}, notes.__setitem__)
        for value in ("blue", "green", "yellow", "white"):
            served(asked(after=SCENE.changed("colour", value)), threading.Event())
        return [answer.fault for answer in notes.values()]

    assert groups(PLANS["faulty"].seed) == groups(PLANS["faulty"].seed)
    assert len({tuple(groups(seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize("group", ["reshape", "another size"])
def test_another_form_or_size_is_sent_as_such(group: str) -> None:
    served, _ = oracle(group)
    height, width = pixels(served(asked(), threading.Event())).shape[:2]
    assert (height, width) != (64, 64)
    assert (height == width) is (group == "another size")


def test_an_ignored_instruction_gives_the_source_again() -> None:
    served, notes = oracle("ignored")
    image = pixels(served(asked(after=SCENE.changed("background", "snow")), threading.Event()))
    assert away(image, render(SCENE)) < 2
    assert [answer.group for answer in notes.values()] == ["ignored"]
    # Of a control that is right.
    served(asked(), threading.Event())
    assert [answer.group for answer in notes.values()] == ["ignored", "obeys"]


def test_a_refusal_has_a_code_of_policy() -> None:
    served, _ = oracle("refuses")
    reply = served(asked(), threading.Event())
    assert reply.status == 400
    assert json.loads(reply.content)["error"]["code"] == "content_policy_violation"


def test_a_late_answer_is_late_once() -> None:
    class Waited(threading.Event):
        waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.waits += 1
            return True

    served, closing = oracle("late")[0], Waited()
    for _ in range(2):
        served(asked(), closing)
    assert closing.waits == 1


def test_another_image_is_another_one_at_each_call() -> None:
    served, _ = oracle("another image")
    first, second = (pixels(served(asked(), threading.Event())) for _ in range(2))
    assert away(first, second) > 5


def test_the_same_question_has_the_same_fault_whatever_was_asked_before() -> None:
    def answers(order: Callable[[list[Scene]], list[Scene]]) -> dict[str, Answer]:
        notes = dict[str, Answer]()
        served = Oracle(PLANS["faulty"], {image_of(SCENE): SCENE}, notes.__setitem__)
        colours = [SCENE.changed("colour", value) for value in ("blue", "green", "yellow", "white")]
        for after in order(colours):
            served(asked(after=after), threading.Event())
        return notes

    forwards = answers(list)
    assert forwards == answers(lambda scenes: scenes[::-1])
    prompt = INSTRUCTION(caption(SCENE), caption(SCENE.changed("colour", "blue")))
    assert question_key(image_of(SCENE), prompt, 5) in forwards
    # Not of the seed, which all edits of an image share.
    assert len({answer.group for answer in forwards.values()}) > 1


def test_a_plan_draws_each_group_as_often_as_it_says() -> None:
    plan, generator = PLANS["faulty"], np.random.default_rng(1)
    drawn = [plan.group(generator) for _ in range(4000)]
    for group, share in plan.shares.items():
        assert abs(drawn.count(group) / 4000 - share) < 0.02
    assert abs(drawn.count("obeys") / 4000 - (1 - sum(plan.shares.values()))) < 0.03
    assert {PLANS["honest"].group(generator) for _ in range(50)} == {"obeys"}


def test_nothing_is_planted_that_limits_were_calibrated_on() -> None:
    for group, faults in FAULTS.items():
        assert not set(faults) & set(CALIBRATION.faults[group])
    assert not set(OVER_EDITED) & set(CALIBRATION.over_edited)
    # Sizes in per cent, and scales, of both.
    sizes = {name.partition("%")[0].split()[-1] for name in FAULTS["leak"]}
    assert not sizes & {"12", "20", "25"}


def test_a_region_holds_all_that_the_change_touches() -> None:
    for number in range(3):
        scene = scene_for(VALIDATION, 9_500_000 + number, DATASET)
        after = scene.changed("companion", "dog" if scene.companion != "dog" else "ball")
        question = Question(scene, {"companion": (scene.companion, after.companion)})
        source, edited = render(scene), render(after)
        region = question.region(source, edited)
        assert question.after == after
        assert np.abs(source.astype(int) - edited).max(axis=-1)[~region].max() <= 2
        assert 0 < region.mean() < 0.5
