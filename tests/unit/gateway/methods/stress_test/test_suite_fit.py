"""Images outside the suite: what is measured of each source, and when a run is stopped by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scorer import ScoreRequest, ScoreResponse
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.suite_fit import KnownImages, SuiteFit
from counterpose_core.errors import BackendUnavailable
from counterpose_core.suite import Suite
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.methods.stress_test.prepared import first_items
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.screen.suite_fit import look, redraws_as_calibrated
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.services.ports import Services
from fakes.ports import FakeScorer, fake_services
from fakes.recorder import FakeRecorder, lease_all, recorded_items, recorded_run
from fakes.runs import stress_test_request
from fakes.world import FakeWorld, fake_dataset, fake_suite

# The fakes' captions have a nat for thirteen words, a cosine of 0.3 with their images, and 30 dB.
KNOWN = KnownImages(caption_nats=-0.1, image_text=0.25, psnr_db=28.0, preset="quick", images=300)
FOREIGN = KNOWN.model_copy(update={"image_text": 0.5})


def suite(known: KnownImages | None) -> Suite:
    return fake_suite().model_copy(update={"known_images": known})


async def planned(
    sources: list[Source], services: Services, known: KnownImages | None, **changes: object
) -> tuple[StressTestConfig, list[PlannedItem]]:
    request = stress_test_request(edit_types=["background"], max_edits_per_image=1, confirm=False, **changes)
    prepared = await prepare_stress_test(
        request,
        dataset=fake_dataset(len(sources)),
        sources=SourceTable.of(sources),
        suite=suite(known),
        services=services,
    )
    return prepared.config, list(first_items(prepared))


async def made(
    known: KnownImages | None,
    number: int = 1,
    *,
    services: Services | None = None,
    world: FakeWorld | None = None,
    caption: str | None = None,
    **changes: object,
) -> tuple[StressTestConfig, list[Item]]:
    """A run over so many sources of one class, as it was recorded."""
    world = world or FakeWorld()
    services = services or fake_services(world)
    sources = [world.source("sled", index, caption=caption) for index in range(number)]
    config, items = await planned(sources, services, known, **changes)
    record = FakeRecorder()
    for group in lease_all(config, items):
        await process(group, services=services, record=record, store=world.store)
    return config, recorded_items(items, record)


def fits(items: list[Item]) -> list[SuiteFit]:
    results: list[ItemResult] = [item.result for item in items if item.result is not None]
    return [result.suite_fit for result in results if result.suite_fit is not None]


@pytest.mark.parametrize(
    ("changes", "outside"),
    [
        ({}, []),
        ({"caption_nats": -0.05}, ["caption_nats"]),
        ({"image_text": 0.5, "psnr_db": 31.0}, ["image_text", "psnr_db"]),
    ],
)
async def test_a_reconstruction_says_by_which_measures_its_source_lies_outside(
    changes: dict[str, float], outside: list[str]
) -> None:
    _, items = await made(KNOWN.model_copy(update=changes))
    assert fits(items) == [
        SuiteFit.model_validate(
            {"caption_nats": -1 / 13, "image_text": 0.3, "psnr_db": 30.0, "outside": outside}
        )
    ]


async def test_a_suite_that_was_not_calibrated_says_nothing() -> None:
    config, items = await made(None, 9)
    assert fits(items) == []
    assert summarize(recorded_run(config, items), items).suite_fit is None


async def test_captions_of_the_users_own_and_reconstructions_by_another_preset_are_not_measured() -> None:
    _, items = await made(FOREIGN, caption="a photo of a red sled on the grass next to a dog")
    assert fits(items) == [SuiteFit(psnr_db=30.0)]
    _, items = await made(KNOWN.model_copy(update={"psnr_db": 40.0}), preset="direct")
    assert fits(items) == [SuiteFit(caption_nats=-1 / 13, image_text=0.3)]


async def test_a_preset_of_the_same_name_for_another_backend_is_not_the_calibration_s() -> None:
    config, _ = await planned([FakeWorld().source("sled", 0)], fake_services(FakeWorld()), KNOWN)
    assert redraws_as_calibrated(config, KNOWN)
    assert not redraws_as_calibrated(config, KNOWN.model_copy(update={"backend": "another"}))


async def test_a_scorer_that_fails_costs_the_measure_and_no_item() -> None:
    class FailsFirst(FakeScorer):
        async def score(self, request: ScoreRequest) -> ScoreResponse:
            if not request.items[0].removed + request.items[0].added:
                raise BackendUnavailable("the scorer is down")
            return await super().score(request)

    world = FakeWorld()
    _, items = await made(FOREIGN, world=world, services=fake_services(world, scorer=FailsFirst(world)))
    assert fits(items) == [SuiteFit(caption_nats=-1 / 13, psnr_db=30.0)]
    assert {item.state for item in items} == {"done"}


class _Recorded:
    """A ledger with the items of a run of which so many sources are done."""

    def __init__(self, items: list[Item], done: int) -> None:
        names = list(dict.fromkeys(item.item_group for item in items))[:done]
        open_item = {"state": "pending", "result": None}
        self.items = self
        self._items = [
            item if item.item_group in names else item.model_copy(update=open_item) for item in items
        ]

    def recorded(self, run_id: str, *, first: int = 0, number: int | None = None) -> Iterator[RecordedItem]:
        return map(RecordedItem.of, self._items[first : None if number is None else first + number])


def _recorded(items: list[Item], done: int) -> Ledger:
    return cast(Ledger, _Recorded(items, done))


@pytest.mark.parametrize(
    ("known", "done", "decided", "stopped"),
    [
        (FOREIGN, 7, False, False),
        (FOREIGN, 8, True, True),
        (FOREIGN, 20, True, True),
        (KNOWN, 7, False, False),
        (KNOWN, 8, True, False),
        (None, 1, True, False),
    ],
)
async def test_eight_sources_decide_whether_a_run_goes_on(
    known: KnownImages | None, done: int, decided: bool, stopped: bool
) -> None:
    config, items = await made(known, 20)
    world = FakeWorld()
    _, plan = await planned([world.source("sled", 0)], fake_services(world), known)
    [group] = lease_all(config, plan)
    found = look(group, _recorded(items, done))
    assert (found.decided, found.problem is not None) == (decided, stopped)
    if found.problem is not None:
        seen = min(done, 12)
        assert (
            f"{seen} of {seen} images lie outside what suite 'miniature' was trained on: the caption does "
            f"not fit the image ({seen})."
        ) in found.problem.detail
        assert "docs/how-to/gpu.md" in found.problem.detail
        assert "--anyway" in found.problem.detail
    request = {**config.request.model_dump(mode="json"), "outside_suite": "continue"}
    anyway = replace(group, config={**group.config, "request": request})
    assert look(anyway, _recorded(items, done)).problem is None


async def test_a_run_of_few_images_is_judged_when_all_are_known() -> None:
    config, items = await made(FOREIGN, 3)
    world = FakeWorld()
    _, plan = await planned([world.source("sled", 0)], fake_services(world), FOREIGN)
    [group] = lease_all(config, plan)
    assert not look(group, _recorded(items, 2)).decided
    assert look(group, _recorded(items, 3)).problem is not None


async def test_a_summary_counts_the_images_outside_before_anything_else() -> None:
    config, items = await made(FOREIGN, 9, outside_suite="continue")
    summary = summarize(recorded_run(config, items), items)
    assert summary.suite_fit is not None
    assert (summary.suite_fit.outside, summary.suite_fit.share.n) == (9, 9)
    assert summary.suite_fit.share.low is not None
    assert summary.suite_fit.by == {"caption_nats": 0, "image_text": 9, "psnr_db": 0}
    assert str(summary).startswith("9 of 9 images lie outside what suite 'miniature' was trained on")
    config, items = await made(KNOWN, 9)
    assert summarize(recorded_run(config, items), items).warnings == []
