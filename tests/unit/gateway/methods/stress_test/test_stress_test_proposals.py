"""Slots and their proposals: which edit fills a slot, which is dropped, and that sampling is repeatable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.contract.perturber import (
    CaptionEdit,
    Perturbations,
    PerturbItem,
)
from counterpose_gateway.methods.stress_test.process import process
from fakes.ports import (
    FakeEditor,
    FakePerturber,
    FakeScorer,
    fake_services,
)
from fakes.recorder import FakeRecorder, lease_all
from fakes.runs import outcome, planned, states, stress_test
from fakes.world import FakeWorld


class _LabelSwapper(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        if item.perturbation_type != "subject":
            return super().propose(item)
        texts = [item.caption.replace("sled", "boat")] * (item.n - 1) + [item.caption.replace("red", "tiny")]
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[]) for text in texts])


@pytest.mark.paper("LANCE-A1-11-label")
async def test_proposals_that_touch_the_label_are_skipped() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_LabelSwapper())
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    result = outcome(items, record, "edit", "subject").result
    assert result is not None
    assert result.edited_caption == "a photo of a tiny sled on the grass next to a dog"


class _OnlyLabelSwaps(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        if item.perturbation_type == "object":
            return Perturbations(edits=[])
        if item.perturbation_type != "subject":
            return super().propose(item)
        text = item.caption.replace("sled", "boat")
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[])])


async def test_a_slot_without_a_usable_proposal_says_why() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_OnlyLabelSwaps())
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "subject").reason == "label-in-edit"
    assert outcome(items, record, "edit", "object").reason == "no-edit"
    assert states(record) == {"done": 5, "label-in-edit": 1, "no-edit": 1}


class _NotesSeeds(FakePerturber):
    def __init__(self) -> None:
        super().__init__()
        self.seeds: list[int] = []

    def propose(self, item: PerturbItem) -> Perturbations:
        self.seeds.append(item.seed)
        return super().propose(item)


async def test_every_slot_has_its_own_seed_derived_from_the_run() -> None:
    world = FakeWorld()
    sources = [world.source("sled", 0), world.source("sled", 1)]
    noted: list[list[int]] = []
    for seed in (3, 3, 4):
        perturber = _NotesSeeds()
        services = fake_services(world, perturber=perturber)
        await stress_test(world, sources, services, seed=seed, max_edits_per_image=10)
        noted.append(perturber.seeds)
    assert len(set(noted[0])) == len(noted[0]) == 22
    assert noted[0] == noted[1]
    assert not set(noted[0]) & set(noted[2])


class _SynonymScorer(FakeScorer):
    def vector(self, text: str) -> list[float]:
        names = {"snow": "grass", "sand": "grass", "fog": "grass", "sleigh": "sled"}
        return super().vector(next((old for new, old in names.items() if new in text), text.split()[-1]))


async def test_synonyms_are_not_an_edit() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=_SynonymScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "background").reason == "edit-too-similar"


class _BringsASleigh(FakePerturber):
    def propose(self, item: PerturbItem) -> Perturbations:
        text = (
            item.caption.replace("a dog", "a sleigh") if item.perturbation_type == "object" else item.caption
        )
        return Perturbations(edits=[CaptionEdit(edited_caption=text, removed=[], added=[])])


@pytest.mark.paper("LANCE-D-new-words")
async def test_class_synonyms_and_unchanged_captions_are_not_edits() -> None:
    world = FakeWorld()
    services = fake_services(world, perturber=_BringsASleigh(), scorer=_SynonymScorer(world))
    items, record = await stress_test(world, [world.source("sled", 0)], services)
    assert outcome(items, record, "edit", "object").reason == "label-in-edit"
    assert outcome(items, record, "edit", "domain").reason == "no-edit"
    assert outcome(items, record, "placebo").state == "done"


@pytest.mark.paper("LANCE-D-duplicates")
async def test_slots_of_a_type_get_distinct_edits_or_end_as_duplicates() -> None:
    world = FakeWorld()
    _, record = await stress_test(
        world,
        [world.source("sled", 0)],
        fake_services(world),
        edit_types=["adjective"],
        max_edits_per_image=4,
    )
    results = [recorded.result for recorded in record.outcomes.values() if recorded.result is not None]
    colours = [result.added[0].words[0] for result in results if result.added and result.added[0].start == 4]
    assert sorted(colours) == ["blue", "green", "yellow"]
    assert states(record) == {"done": 5, "duplicate-edit": 1}


async def test_retrying_one_slot_gives_the_same_edit() -> None:
    world = FakeWorld()
    services = fake_services(world)
    config, items = await planned(
        [world.source("sled", 0)], services, edit_types=["adjective"], max_edits_per_image=3
    )
    [group] = lease_all(config, items)
    together, alone = FakeRecorder(), FakeRecorder()
    await process(group, services=services, record=together, store=world.store)
    last = [item for item in group.items if item.slot == 2]
    await process(replace(group, items=last), services=services, record=alone, store=world.store)
    assert [*alone.outcomes] == [last[0].id]
    first, second = together.outcomes[last[0].id].result, alone.outcomes[last[0].id].result
    assert first is not None
    assert second is not None
    assert first.edited_caption == second.edited_caption


async def test_retrying_a_reconstruction_requests_no_edits() -> None:
    world = FakeWorld()
    perturber, editor, record = FakePerturber(), FakeEditor(world), FakeRecorder()
    services = fake_services(world, perturber=perturber, editor=editor)
    config, items = await planned([world.source("sled", 0)], services)
    [group] = lease_all(config, items)
    control = [item for item in group.items if item.kind == "reconstruction"]
    await process(replace(group, items=control), services=services, record=record, store=world.store)
    assert states(record) == {"done": 1}
    assert "perturb" not in perturber.calls
    assert editor.calls == {"reconstruct": 1}
