"""Every method makes its plans again from the recorded request: the same items, from any ordinal on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.runs import Run
from counterpose_core.errors import InternalError
from counterpose_core.types import RunKind
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.runs.large_plans import PlanInputs
from fakes.benchmarks import benchmark_body, benchmark_services, learn_interface
from fakes.gateway import FakeGateway, fake_gateway
from fakes.world import CLASSES

PER_CLASS = 8
SOURCES = PER_CLASS * len(CLASSES)
STRESS_TEST = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}
CONFIRMED = STRESS_TEST | {"confirm": True, "confirm_share": 0.5, "limit": 30, "exclude": ["sled/sled-1.png"]}
WORDS = {"removed": "grass", "added": "sand"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def interface(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[FakeGateway, str]]:
    """A gateway with a dataset, some of its images in groups, and its learned interface."""
    folder = tmp_path_factory.mktemp("again")
    async with fake_gateway(folder, ports=benchmark_services) as opened:
        await opened.upload("demo", PER_CLASS)
        regroup(opened, "boat", "burst")
        yield opened, learn_interface(opened.ledger)


def regroup(gateway: FakeGateway, label: str, group: str) -> None:
    """Put four images of a class into a group."""
    known = [source for source in gateway.ledger.datasets.sources("demo") if source.label == label][:4]
    gateway.ledger.datasets.add("demo", [_again(source, group) for source in known])


def _again(source: Any, group: str) -> NewSource:
    names = ("image", "label", "filename", "caption", "width", "height")
    return NewSource(**{name: getattr(source, name) for name in names}, group=group)


REQUESTS: list[tuple[str, RunKind, Mapping[str, Any], tuple[str, ...]]] = [
    ("slots", "stress-test", STRESS_TEST | {"confirm": False, "interventions": [WORDS]}, ("demo",)),
    ("fresh", "stress-test", CONFIRMED, ("demo",)),
    ("cells", "shift-benchmark", {}, ("demo",)),
    (
        "own images",
        "shift-benchmark",
        {"image_sources": ["token", "photographs"], "photographs": {"base": "demo", "in the snow": "demo"}},
        ("demo",),
    ),
    ("classes", "dataset-interface", {"dataset": "demo", "seed": 5}, ()),
]


@pytest.mark.parametrize(
    ("kind", "body", "read"), [row[1:] for row in REQUESTS], ids=[r[0] for r in REQUESTS]
)
async def test_a_plan_made_again_is_the_plan(
    interface: tuple[FakeGateway, str], kind: RunKind, body: Mapping[str, Any], read: tuple[str, ...]
) -> None:
    gateway, learned = interface
    body = benchmark_body(learned, **body) if kind == "shift-benchmark" else body
    answer = await gateway.http.post(f"/v1/{kind}s", json=body)
    assert answer.status_code == 202, answer.text
    run = Run.model_validate_json(answer.content)
    whole = stored(gateway, run.id)
    assert len(whole) == run.request_counts.total > 3
    # What comes after the request changes nothing.
    before = gateway.ledger.datasets.get("demo").n_sources
    regroup(gateway, "kite" if body.get("confirm") else "plate", "late")
    gateway.ledger.datasets.add("demo", [late_image(before)])
    inputs = PlanInputs(dict.fromkeys(read, before), gateway.ledger, gateway.store)
    rest_of_plan = METHODS[kind].rest_of_plan
    assert rest_of_plan is not None
    for first in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        again = rest_of_plan(run, inputs, first)
        assert [plain(item) for item in again] == whole[first:]
    gateway.ledger.runs.cancel(run.id)


def late_image(number: int) -> NewSource:
    return NewSource(
        image=f"{number:064x}", label="sled", filename="late.png", caption=None, width=64, height=64
    )


def plain(item: PlannedItem) -> dict[str, Any]:
    return {each.name: getattr(item, each.name) for each in fields(PlannedItem)}


def stored(gateway: FakeGateway, run_id: str) -> list[dict[str, Any]]:
    found: list[PlannedItem] = []
    while (group := gateway.ledger.items.lease("worker", seconds=60.0, run_id=run_id)) is not None:
        found += group.items
    return [plain(item) for item in sorted(found, key=lambda item: item.ordinal)]


async def test_a_plan_is_not_made_again_from_other_sources(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        answer = await gateway.http.post("/v1/stress-tests", json=STRESS_TEST)
        run = Run.model_validate_json(answer.content)
        rest_of_plan = METHODS["stress-test"].rest_of_plan
        assert rest_of_plan is not None
        for counts in ({"demo": 9}, {"demo": 7}, {}):
            with pytest.raises(InternalError):
                list(rest_of_plan(run, PlanInputs(counts, gateway.ledger, gateway.store), 0))
