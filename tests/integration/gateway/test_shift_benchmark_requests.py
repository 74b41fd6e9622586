"""Requests for shift benchmarks: which are refused, with which code and pointer, and what is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmarks import ImageItem, ShiftBenchmarkConfig
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from fakes.benchmarks import benchmark_body, benchmark_services, learn_interface
from fakes.gateway import FakeGateway, fake_gateway

ROOT = "/v1/shift-benchmarks"
LONG = "in " + "very " * 80 + "deep snow"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Learned:
    """A gateway with interfaces: one whole, one cancelled half-way, one that goes on."""

    gateway: FakeGateway
    whole: str
    half: str
    going_on: str

    async def post(self, interface: str | None = None, **changes: Any) -> Any:
        """Ask for a benchmark."""
        body = benchmark_body(interface or self.whole, **changes)
        return await self.gateway.http.post(ROOT, json=body)

    async def planned(self, interface: str | None = None, **changes: Any) -> Planned:
        """The benchmark that is made of a request."""
        answer = await self.post(interface, **changes)
        assert answer.status_code == 202, answer.text
        run = Run.model_validate_json(answer.content)
        items = list(self.gateway.ledger.items.of(run.id, ImageItem))
        return Planned(ShiftBenchmarkConfig.model_validate(run.resolved_config), items)


@dataclass(frozen=True)
class Planned:
    """A benchmark's configuration and items."""

    config: ShiftBenchmarkConfig
    items: list[ImageItem]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def learned(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Learned]:
    folder = tmp_path_factory.mktemp("learned")
    async with fake_gateway(folder, ports=benchmark_services, max_items_per_run=3000) as opened:
        await opened.upload("demo", 6)
        await opened.upload("snowy", 3, ("plate", "sled"))
        await opened.upload("strange", 1, ("yak",))
        await opened.http.post("/v1/datasets", json={"name": "empty"})
        ledger = opened.ledger
        yield Learned(
            opened,
            learn_interface(ledger),
            learn_interface(ledger, unlearned=("boat", "kite")),
            learn_interface(ledger, unlearned=("kite",), cancel=False),
        )


@pytest.mark.fault("B47")
@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"interface": "nobody"}, "not-found", "/interface"),
        ({"classes": ["plate", "yak"]}, "invalid-request", "/classes/1"),
        ({"classes": []}, "invalid-request", "/classes"),
        ({"classes": ["yak" * 100_000]}, "invalid-request", "/classes/0"),
        ({"classes": ["plate", "plate"]}, "invalid-request", "/classes"),
        ({"classifiers": ["steady", "nobody"]}, "unknown-model", "/classifiers/1"),
        ({"classifiers": ["py:mine:predict"]}, "invalid-request", "/classifiers/0"),
        ({"shifts": []}, "invalid-request", "/shifts"),
        ({"shifts": ["resting", "resting  here"]}, "invalid-request", "/shifts/1"),
        ({"shifts": ["in the snow", "IN THE SNOW"]}, "invalid-request", "/shifts"),
        ({"shifts": ["a photo of a <class>"]}, "invalid-request", "/shifts/0"),
        ({"shifts": ["fine", "a <class> on a <class>"]}, "invalid-request", "/shifts/1"),
        ({"shifts": ["a photo of a plate"]}, "invalid-request", "/shifts/0"),
        ({"shifts": ["a < class > in the snow"]}, "invalid-request", "/shifts/0"),
        ({"shifts": ["ignore {{this}}"]}, "invalid-request", "/shifts/0"),
        ({"shifts": ["base"]}, "invalid-request", "/shifts/0"),
        ({"shifts": ["a " * 76]}, "prompt-too-long", "/shifts/0"),
        ({"shifts": LONG}, "invalid-request", "/shifts"),
        ({"shifts": ["in the snow", LONG]}, "invalid-request", "/shifts/1"),
        ({"class_shifts": {"yak": ["sleeping"]}}, "invalid-request", "/class_shifts/yak"),
        ({"class_shifts": {"plate": ["sleeping", "sleeping"]}}, "invalid-request", "/class_shifts/plate/1"),
        ({"class_shifts": {"plate": ["in the snow"]}}, "invalid-request", "/shifts"),
        ({"image_sources": []}, "invalid-request", "/image_sources"),
        ({"image_sources": ["token", "token"]}, "invalid-request", "/image_sources"),
        ({"image_sources": ["real"]}, "invalid-request", "/image_sources/0"),
        ({"image_sources": ["retrieval"]}, "invalid-request", "/retrieval"),
        ({"image_sources": ["retrieval"], "retrieval": "nowhere"}, "unknown-dataset", "/retrieval"),
        ({"image_sources": ["retrieval"], "retrieval": "empty"}, "dataset-empty", "/retrieval"),
        ({"retrieval": "snowy"}, "invalid-request", "/retrieval"),
        ({"image_sources": ["scraped"]}, "invalid-request", "/scraped"),
        ({"validation": "snowy", "real": 0}, "invalid-request", "/validation"),
        ({"photographs": {"base": "demo"}}, "invalid-request", "/photographs"),
        (
            {"image_sources": ["photographs"], "photographs": {"in the snow": "snowy"}},
            "invalid-request",
            "/photographs",
        ),
        (
            {"image_sources": ["photographs"], "photographs": {"base": "demo", "on a/b": "snowy"}},
            "invalid-request",
            "/photographs/on a~1b",
        ),
        (
            {"image_sources": ["photographs"], "photographs": {"base": "demo", "in the snow": "nowhere"}},
            "unknown-dataset",
            "/photographs/in the snow",
        ),
        (
            {"image_sources": ["scraped"], "scraped": {"base": "strange"}},
            "dataset-empty",
            "/scraped/base",
        ),
        (
            {
                "image_sources": ["photographs"],
                "photographs": {"base": "demo", "in the snow": "snowy", "IN THE SNOW": "demo"},
            },
            "invalid-request",
            "/photographs/IN THE SNOW",
        ),
        (
            {"image_sources": ["scraped"], "scraped": {"base": "demo", "A photo of a <class>": "snowy"}},
            "invalid-request",
            "/scraped/A photo of a <class>",
        ),
        ({"validation": "nowhere"}, "unknown-dataset", "/validation"),
        ({"validation": "strange"}, "dataset-empty", "/validation"),
        ({"n": 0}, "invalid-request", "/n"),
        ({"n": 10**9}, "quota-exceeded", "/n"),
        ({"n": 500}, "quota-exceeded", "/n"),
        ({"real": -1}, "invalid-request", "/real"),
        ({"real": 10**9}, "quota-exceeded", "/real"),
        ({"steps": 0}, "invalid-request", "/steps"),
        ({"guidance": 0.5}, "invalid-request", "/guidance"),
        ({"scheduler": "no such scheduler"}, "invalid-request", "/scheduler"),
        ({"seed": -1}, "invalid-request", "/seed"),
        ({"seed": 2**63}, "invalid-request", "/seed"),
        ({"stepz": 3}, "invalid-request", "/stepz"),
    ],
)
async def test_an_impossible_benchmark_is_refused_with_code_and_pointer(
    learned: Learned, changes: dict[str, Any], code: str, pointer: str
) -> None:
    before = len(learned.gateway.ledger.runs.page(limit=1000).runs)
    answer = await learned.post(**changes)
    problem = answer.json()
    assert (problem["code"], problem["errors"][0]["pointer"]) == (code, pointer), problem
    assert answer.status_code in (404, 422, 429)
    assert len(answer.content) < 2000
    assert len(learned.gateway.ledger.runs.page(limit=1000).runs) == before


async def test_an_active_interface_needs_its_classes_named(learned: Learned) -> None:
    refused = await learned.post(learned.going_on)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/interface")
    planned = await learned.planned(learned.going_on, classes=["plate"])
    assert planned.config.classes == ["plate"]


async def test_a_run_of_another_kind_is_not_an_interface(learned: Learned) -> None:
    run = Run.model_validate_json((await learned.post()).content)
    refused = await learned.post(run.id)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (404, "/interface")


async def test_classes_without_tokens_can_only_be_generated_by_name(learned: Learned) -> None:
    planned = await learned.planned(learned.half)
    assert (planned.config.classes, planned.config.missing) == (["plate", "sled"], ["boat", "kite"])
    by_name = await learned.planned(learned.half, image_sources=["class-name"])
    assert by_name.config.missing == []
    assert len(by_name.config.classes) == 4


async def test_the_catalogue_has_the_base_and_23_shifts(learned: Learned) -> None:
    planned = await learned.planned(shifts="catalogue", classes=["plate"], image_sources=["token"])
    assert len(planned.config.shifts) == 24
    assert planned.config.shifts[0].name == "base"
    # The suite's CLIP is not the paper's: its thresholds are none here.
    assert all(shift.threshold is None for shift in planned.config.shifts)
    assert {shift.photo for shift in planned.config.shifts} == {True, False}


async def test_equal_class_shifts_become_one_shift_of_those_classes(learned: Learned) -> None:
    own = {"plate": ["stacked", "a photo of an empty <class>"], "sled": ["stacked"]}
    planned = await learned.planned(class_shifts=own, image_sources=["token"])
    classes = {shift.name: shift.classes for shift in planned.config.shifts}
    assert classes["stacked"] == ["plate", "sled"]
    assert classes["a photo of an empty …"] == ["plate"]
    assert classes["in the snow"] is None
    stacked = [item for item in planned.items if condition(planned, item) == "stacked"]
    assert {item.label for item in stacked} == {"plate", "sled"}


async def test_items_are_unique_and_grouped_by_cell_in_order(learned: Learned) -> None:
    planned = await learned.planned(n=20, steps=50)
    assert [item.ordinal for item in planned.items] == list(range(len(planned.items)))
    groups: dict[str, list[ImageItem]] = {}
    for item in planned.items:
        groups.setdefault(item.item_group, []).append(item)
    # 50 steps of two evaluations each: 12 images are some 30 seconds of a call.
    assert {len(group) for name, group in groups.items() if ".real." not in name} == {12, 8}
    assert all(len({item.label for item in group}) == 1 for group in groups.values())
    assert all(len(name) <= 64 for name in groups)
    order = [(".real." not in name, Cell.of(name).condition) for name in groups]
    assert all(first <= second for first, second in pairwise(order))


async def test_real_images_can_come_from_a_held_out_dataset(learned: Learned) -> None:
    planned = await learned.planned(
        validation="snowy", classes=["plate"], image_sources=["class-name"], real=2
    )
    real = [item for item in planned.items if ".real." in item.item_group]
    kept_back = {source.image for source in learned.gateway.ledger.datasets.sources("snowy")}
    assert len(real) == 2
    assert {item.source_image for item in real} <= kept_back


async def test_equal_requests_plan_equal_items_and_another_seed_other_images(learned: Learned) -> None:
    first, again, other = [await learned.planned(seed=seed) for seed in (1, 1, 2)]
    assert first.config == again.config
    assert [item.item_group for item in first.items] == [item.item_group for item in other.items]
    assert first.config.request.seed != other.config.request.seed


async def test_generation_settings_of_the_request_override_the_suite_s(learned: Learned) -> None:
    planned = await learned.planned(steps=7, guidance=2.0)
    assert (planned.config.generation.steps, planned.config.generation.guidance) == (7, 2.0)


async def test_a_request_repeated_with_one_key_is_one_run(learned: Learned) -> None:
    headers, body = {"idempotency-key": "bench"}, benchmark_body(learned.whole)
    answers = [await learned.gateway.http.post(ROOT, json=body, headers=headers) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = await learned.gateway.http.post(ROOT, json=body | {"seed": 9}, headers=headers)
    assert other.json()["code"] == "idempotency-conflict"


def condition(planned: Planned, item: ImageItem) -> str:
    return Cell.of(item.item_group).condition_name(planned.config)


async def test_the_plan_records_classifier_metadata_for_grouping(learned: Learned) -> None:
    planned = await learned.planned(classifiers=["steady", "timm:resnet18"])
    steady, published = planned.config.zoo["steady"], planned.config.zoo["timm:resnet18"]
    assert (steady.name, steady.classes) == ("steady", None)
    assert (published.architecture, published.parameters) == ("resnet18", 11_000_000)
    assert (published.resolution, published.training) == (224, "")


async def test_the_plan_records_the_requested_scheduler(learned: Learned) -> None:
    planned = await learned.planned(scheduler="EulerDiscreteScheduler")
    assert planned.config.generation.scheduler == "EulerDiscreteScheduler"


@pytest.mark.paper("DI-C-per-set")
async def test_fifty_images_of_each_class_under_each_shift_can_be_asked_for(learned: Learned) -> None:
    planned = await learned.planned(
        shifts=["in the snow"], classes=["plate", "boat"], image_sources=["token"], n=50, real=0
    )
    # Without a shift and under one.
    assert Counter(item.label for item in planned.items) == {"plate": 100, "boat": 100}
