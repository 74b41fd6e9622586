"""Two conditions that hurt together alone: seen in the screen, tested on images of both, named."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item
from counterpose_core.stress_test.conjunctions import Condition, Conjunction, ConjunctionCandidate
from counterpose_gateway.methods.stress_test.confirm.conjunctions import (
    BUDGET_PARTS,
    FIRST_SLOT,
    ITEMS_OF_A_TEST,
    LEAST_CONJUNCTION_BUDGET,
    MOST_PAIRS,
    further_items,
    look_items,
)
from counterpose_gateway.methods.stress_test.observations.conjunction_pairs import PARTS
from counterpose_gateway.methods.stress_test.screen.draws import by_noise
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems
from fakes.confirmed_runs import StagedRun, finished_run, run_after_screen
from fakes.ports import FakeClassifiers, fake_services
from fakes.recorder import lease_all
from fakes.world import CAPTION, FakeWorld

TYPES = ["background", "object"]
RARE = "next to a lamp and a dog"


class Meeting(FakeClassifiers):
    """``leaning`` misses its class where snow and a lamp meet, or where ``alone`` is said."""

    alone = "no such words"

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        caption = self.world.shown[image].caption
        misled = ("snow" in caption and "lamp" in caption) or self.alone in caption
        asked = request if request.classifier == "leaning" and misled else self._sure(request)
        return super().predict(asked, image) if asked is not request else self._wrong(request, image)

    def _sure(self, request: ClassifyRequest) -> ClassifyRequest:
        return request.model_copy(update={"classifier": "steady"})

    def _wrong(self, request: ClassifyRequest, image: str) -> Prediction:
        right = super().predict(self._sure(request), image)
        probabilities = [0.1 if p == max(right.probabilities) else 0.3 for p in right.probabilities]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
        return Prediction(probabilities=probabilities, top=top)


class Leaning(Meeting):
    """Snow alone misleads it."""

    alone = "snow"


class Missing(Meeting):
    """It fails where the dog is gone, so that any two words of such a caption meet in a mistake."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        misled = "dog" not in self.world.shown[image].caption and request.classifier == "leaning"
        asked = self._sure(request)
        return self._wrong(request, image) if misled else FakeClassifiers.predict(self, asked, image)


class Coincidence(Meeting):
    """It fails on the user's own images with a lamp, for another reason than the lamp."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        odd = RARE in (caption := self.world.shown[image].caption) and "snow" in caption
        misled = odd and request.classifier == "leaning"
        return (
            self._wrong(request, image)
            if misled
            else FakeClassifiers.predict(self, self._sure(request), image)
        )


def with_a_rare_caption(world: FakeWorld) -> list[Source]:
    """Some images of each class show a lamp from the start."""
    return [
        world.source(label, number, caption=caption(label, number))
        for label in ("plate", "sled")
        for number in range(20)
    ]


def caption(label: str, number: int) -> str:
    whole = CAPTION.format(label=label)
    return whole.replace("next to a dog", RARE) if number % 5 == 0 else whole


async def run_of(
    classifier: type[Meeting],
    sources: Callable[[FakeWorld], list[Source]] = with_a_rare_caption,
    **changes: object,
) -> StagedRun:
    return await finished_run(
        lambda world: fake_services(world, classifiers=classifier(world)),
        sources=sources,
        **{"edit_types": TYPES, "max_edits_per_image": 6, "confirm_share": 0.5, **changes},  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module", autouse=True)
def _few_items_are_enough() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{look_items.__module__}.LEAST_CONJUNCTION_BUDGET", 0)
        yield


@pytest.fixture(scope="module")
def run() -> StagedRun:
    """A run whose classifier needs both; only to be read."""
    return asyncio.run(run_of(Meeting))


def conjunctions(run: StagedRun) -> list[Finding]:
    return [finding for finding in run.findings() if finding.conjunction]


def parts(run: StagedRun) -> list[Item]:
    return [
        item
        for item in run.of_kind("confirmation", later=True)
        if item.instruction is not None and item.instruction.conjunction is not None
    ]


def test_what_hurts_together_alone_is_a_finding(run: StagedRun) -> None:
    found = conjunctions(run)
    # The budget of so few images pays for one.
    [first] = found
    assert (first.state, first.classifier, first.object_class) == ("breaks", "leaning", "plate")
    assert {each.words for each in first.conjunction} == {"in the snow", "lamp"}
    assert all(each.n == first.of and each.wrong == 0 for each in first.conjunction)
    assert first.flipped == first.of >= 8
    assert first.sentence == (
        f"leaning takes plates for sleds where “in the snow” meets “lamp”: {first.of} of {first.of} images, "
        "0 with one alone."
    )
    assert (first.removed, first.added, first.wordings) == ("", "", [])


def test_each_pair_has_an_image_of_either_and_of_both_on_sources_that_show_neither(run: StagedRun) -> None:
    by_place: dict[str, dict[str, Item]] = {}
    for item in parts(run):
        assert item.instruction is not None
        assert item.instruction.conjunction is not None
        by_place.setdefault(f"{item.slot}/{item.item_group}", {})[item.instruction.conjunction.shows] = item
    rare = {source.id for source in with_a_rare_caption(run.world) if "lamp" in (source.caption or "")}
    assert not rare & {item.item_group for item in parts(run)}
    for images in by_place.values():
        captions = {part: item.result.edited_caption or "" for part, item in images.items() if item.result}
        assert ["snow" in captions[part] for part in ("first", "second", "both")] == [True, False, True]
        assert ["lamp" in captions[part] for part in ("first", "second", "both")] == [False, True, True]


def test_conjunctions_take_at_most_their_part_of_the_budget_and_what_changes_leave(run: StagedRun) -> None:
    assert run.config.confirmation is not None
    budget = run.config.confirmation.budget
    later = [item for item in run.items if item.stage > 1]
    look = [item for item in parts(run) if item.stage == 2]
    changes = len(later) - len(parts(run))
    assert 0 < len(look) <= budget / BUDGET_PARTS / 2
    assert len(parts(run)) - len(look) <= max(budget / BUDGET_PARTS, budget - changes)
    assert len(later) <= budget


def test_no_key_or_ordinal_is_used_twice(run: StagedRun) -> None:
    for stage in run.stages:
        assert [item.ordinal for item in stage] == sorted({item.ordinal for item in stage})
    keys = Counter(item.item_key for stage in run.stages for item in stage)
    assert max(keys.values()) == 1


def test_one_condition_that_hurts_alone_is_no_conjunction() -> None:
    run = asyncio.run(run_of(Leaning))
    assert conjunctions(run) == []
    assert any(finding.state == "breaks" and finding.added for finding in run.findings())


@pytest.mark.parametrize(("classifier", "looked_at"), [(Meeting, True), (Missing, False)])
def test_where_one_change_explains_the_mistakes_no_two_conditions_are_looked_at(
    classifier: type[Meeting], looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Conjunction("plate", Condition("background", "in the snow"), Condition("object", "lamp"))
    fitting = [ConjunctionCandidate("leaning", pair, 1.0, 1)]
    monkeypatch.setattr(f"{look_items.__module__}.fitting_conjunctions", lambda *_: fitting)
    run = asyncio.run(run_of(classifier))
    assert bool(parts(run)) == looked_at


def test_a_run_of_few_items_keeps_them_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{look_items.__module__}.LEAST_CONJUNCTION_BUDGET", LEAST_CONJUNCTION_BUDGET)
    run = asyncio.run(run_of(Meeting))
    assert run.config.confirmation is not None
    assert run.config.confirmation.budget < LEAST_CONJUNCTION_BUDGET
    assert parts(run) == []


def test_a_conjunction_that_its_first_pairs_deny_gets_no_more() -> None:
    run = asyncio.run(run_of(Coincidence))
    assert {item.stage for item in parts(run)} == {2}
    assert [finding.state for finding in conjunctions(run)] != ["breaks"]


def test_drawn_images_of_a_pair_have_noise_of_their_own() -> None:
    run = asyncio.run(run_of(Meeting, redraw="virtual"))
    drawn = [item for stage in run.stages[1:] for item in stage if item.slot >= FIRST_SLOT]
    place = [item for item in drawn if item.item_group == drawn[0].item_group]
    (group, *_) = lease_all(run.config, place)
    seeds = [config.editing.image_seed for _, config in by_noise(group, run.config)]
    assert len(set(seeds)) == len(place) >= len(PARTS)


def test_the_tests_of_conjunctions_are_corrected_with_all_others(run: StagedRun) -> None:
    summary = run.summary()
    assert summary.confirmation is not None
    sizes = {each.confirmed.family_size for each in summary.findings if each.confirmed is not None}
    assert sizes == {summary.confirmation.hypotheses}
    assert summary.confirmation.hypotheses >= len(conjunctions(run))


async def test_a_stage_with_conjunctions_is_the_same_however_often_it_is_planned() -> None:
    run = await run_after_screen(
        lambda world: fake_services(world, classifiers=Meeting(world)),
        sources=with_a_rare_caption,
        edit_types=TYPES,
        max_edits_per_image=6,
    )
    first = run.plan_next()
    run.stages.pop()
    assert first
    assert run.plan_next() == first


async def test_conjunctions_share_what_is_left_in_turns() -> None:
    def sources(world: FakeWorld) -> list[Source]:
        places = [(label, number) for label in ("plate", "sled") for number in range(40)]
        return [world.source(label, number, caption=caption(label, number)) for label, number in places]

    run = await run_of(Meeting, sources=sources)
    looked = SeenItems.of([item for item in run.items if item.stage < 3], run.config)
    # Twice what a test needs, for two conjunctions that want more than half of it each.
    planned = further_items(run.config, 2 * ITEMS_OF_A_TEST, looked)
    counts = Counter(item.slot for item in planned)
    assert set(counts) == {FIRST_SLOT, FIRST_SLOT + 1}
    assert abs(counts[FIRST_SLOT] - counts[FIRST_SLOT + 1]) <= len(PARTS)
    # Half of the images could bring neither to a small p: the one with the larger loss gets them.
    alone = further_items(run.config, ITEMS_OF_A_TEST, looked)
    assert len({item.slot for item in alone}) == 1
    assert len(alone) >= ITEMS_OF_A_TEST - len(PARTS)


async def test_a_pair_that_is_begun_counts_as_much_as_it_probably_will_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sources(world: FakeWorld) -> list[Source]:
        places = [(label, number) for label in ("plate", "sled") for number in range(160)]
        return [world.source(label, number, caption=caption(label, number)) for label, number in places]

    run = await run_of(Meeting, sources=sources)
    looked = SeenItems.of([item for item in run.items if item.stage < 3], run.config)
    monkeypatch.setattr(SeenItems, "share_of_pairs", lambda self, edit_type: 0.7)
    planned = [each for each in further_items(run.config, 10_000, looked) if each.slot == FIRST_SLOT]
    images = {each.item_group for each in planned}
    assert 0.7**2 * len(images) >= MOST_PAIRS


def test_the_look_makes_images_with_both_conditions_only(run: StagedRun) -> None:
    by_stage: dict[int, set[str]] = {}
    for item in parts(run):
        assert item.instruction is not None
        assert item.instruction.conjunction is not None
        by_stage.setdefault(item.stage, set()).add(item.instruction.conjunction.shows)
    assert by_stage == {2: {"both"}, 3: set(PARTS)}
    begun = {item.item_group for item in parts(run) if item.stage == 2}
    assert begun <= {item.item_group for item in parts(run) if item.stage == 3}
