"""Shift thresholds over HTTP: the inspections, the decisions, and the threshold that applies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_thresholds import Inspections, ShiftThresholds
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway

PROMPT = "a photo of a <class> in/on the mud"
PLACES = {
    "shifts": ["in the snow", PROMPT],
    "classes": ["plate", "sled"],
    "image_sources": ["class-name", "token"],
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Benchmarked:
    """A gateway with a benchmark."""

    gateway: FakeGateway
    run: Run

    async def get(self, path: str, **query: Any) -> httpx.Response:
        """Ask for something of the benchmark."""
        return await self.gateway.http.get(f"/v1/runs/{self.run.id}{path}", params=query)

    async def put(self, shift: str, **body: Any) -> httpx.Response:
        """Decide on a shift."""
        path = f"/v1/runs/{self.run.id}/shift-thresholds/{quote(shift, safe='/')}"
        return await self.gateway.http.put(path, json={"author": "Ada"} | body)

    async def inspections(self, **query: Any) -> Inspections:
        """What is to be looked at for snow."""
        answer = await self.get("/inspections", shift="in the snow", **query)
        assert answer.status_code == 200, answer.text
        return Inspections.model_validate_json(answer.content)

    async def summary(self) -> ShiftBenchmarkSummary:
        """The figures as they stand."""
        return ShiftBenchmarkSummary.model_validate_json((await self.get("/summary")).content)

    async def thresholds(self) -> ShiftThresholds:
        """What is in force."""
        return ShiftThresholds.model_validate_json((await self.get("/shift-thresholds")).content)


async def submitted(gateway: FakeGateway) -> Benchmarked:
    body = benchmark_body(await uploaded(gateway), **PLACES)
    answer = await gateway.http.post("/v1/shift-benchmarks", json=body)
    assert answer.status_code == 202, answer.text
    return Benchmarked(gateway, Run.model_validate_json(answer.content))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Benchmarked]:
    async with fake_gateway(tmp_path_factory.mktemp("finished"), ports=benchmark_services) as opened:
        benchmarked = await submitted(opened)
        await opened.worker().work_off()
        yield benchmarked


async def test_inspections_are_listed_by_increasing_similarity(finished: Benchmarked) -> None:
    found = await finished.inspections()
    assert (found.shift, found.image_source, found.n, found.pending) == ("in the snow", "class-name", 10, 0)
    assert found.caption == "a photo in the snow"
    percentiles = [each.percentile for each in found.inspections]
    assert percentiles == sorted(percentiles)
    shown = found.inspections[0].images
    assert len(shown) == 8
    assert shown[0].similarity <= found.inspections[0].similarity <= shown[-1].similarity
    image = await finished.gateway.http.get(f"/v1/artifacts/{shown[0].image}.png")
    assert image.status_code == 200
    by_token = await finished.inspections(image_source="token")
    assert by_token.image_source == "token"
    assert {each.item for row in by_token.inspections for each in row.images}.isdisjoint(
        each.item for row in found.inspections for each in row.images
    )


async def test_inspection_sets_the_lowest_percentile_whose_images_all_show_the_shift(
    finished: Benchmarked,
) -> None:
    found = await finished.inspections()
    ranked = sorted(
        {each.item: each.similarity for row in found.inspections for each in row.images}.items(),
        key=lambda pair: pair[1],
    )
    shows = {item: index > 0 for index, (item, _) in enumerate(ranked)}
    answer = await finished.put("in the snow", shows=shows)
    assert answer.status_code == 200, answer.text
    expected = next(
        row for row in found.inspections if ranked[0][0] not in {each.item for each in row.images}
    )
    assert answer.json()["percentile"] == expected.percentile
    assert answer.json()["threshold"] == pytest.approx(expected.similarity)
    in_force = (await finished.thresholds()).in_force["in the snow"]
    assert (in_force.set_by, in_force.author) == ("person", "Ada")
    summary = await finished.summary()
    below = [1 for item, similarity in ranked if similarity < expected.similarity]
    assert summary.image_sources["class-name"].shifts["in the snow"].counts.without_shift == len(below)
    incomplete = await finished.put("in the snow", shows=dict(list(shows.items())[1:]))
    assert (incomplete.status_code, incomplete.json()["errors"][0]["pointer"]) == (422, "/shows")


async def test_the_newest_decision_applies_and_all_are_kept(finished: Benchmarked) -> None:
    before = (await finished.thresholds()).decisions
    for body in ({"threshold": 0.99}, {"percentile": 50.0}, {"threshold": None, "author": "Grace"}):
        assert (await finished.put("in the snow", **body)).status_code == 200
    found = await finished.thresholds()
    assert found.decisions[: len(before)] == before
    assert [each.threshold for each in found.decisions[len(before) :]][::2] == [0.99, None]
    assert [each.percentile for each in found.decisions[len(before) :]] == [None, 50.0, None]
    in_force = found.in_force["in the snow"]
    assert (in_force.author, in_force.nothing_passes) == ("Grace", True)
    nothing = (await finished.summary()).image_sources["token"].shifts["in the snow"]
    assert (nothing.counts.kept, nothing.effect) == (0, None)
    assert (await finished.put("in the snow", threshold=-1.0)).status_code == 200
    everything = (await finished.summary()).image_sources["token"].shifts["in the snow"]
    assert everything.counts.kept == everything.counts.planned


async def test_a_shift_name_may_contain_a_slash(finished: Benchmarked) -> None:
    name = PROMPT.replace("<class>", "…")
    assert (await finished.put(name, threshold=0.1)).status_code == 200
    assert (await finished.thresholds()).in_force[name].threshold == 0.1


async def test_another_object_percentile_generates_no_images(finished: Benchmarked) -> None:
    editor = finished.gateway.services.editor.calls  # type: ignore[attr-defined]  # a fake's
    made = editor["generate"]
    strict = ShiftBenchmarkSummary.model_validate_json(
        (await finished.get("/summary", object_percentile=100.0)).content
    )
    usual = await finished.summary()
    higher, lower = (found.real.thresholds["plate"].threshold.estimate for found in (strict, usual))
    assert higher is not None
    assert lower is not None
    assert higher > lower
    assert editor["generate"] == made
    for wrong in ("-1", "101", "nan"):
        assert (await finished.get("/summary", object_percentile=wrong)).status_code == 422


@pytest.mark.parametrize(
    ("shift", "body", "status", "pointer"),
    [
        ("in the fog", {"threshold": 0.1}, 404, None),
        ("base", {"threshold": 0.1}, 404, None),
        ("in the snow", {}, 422, ""),
        ("in the snow", {"threshold": 0.1, "percentile": 5.0}, 422, ""),
        ("in the snow", {"percentile": None}, 422, ""),
        ("in the snow", {"threshold": 1.5}, 422, "/threshold"),
        ("in the snow", {"percentile": 33.0}, 422, "/percentile"),
        ("in the snow", {"percentile": 133.0}, 422, "/percentile"),
        ("in the snow", {"shows": {"nothing": True}}, 422, "/shows"),
        ("in the snow", {"threshold": 0.1, "author": ""}, 422, "/author"),
        ("in the snow", {"threshold": 0.1, "author": "<script>"}, 422, "/author"),
        ("in the snow", {"threshold": 0.1, "image_source": "scraped"}, 422, "/image_source"),
    ],
)
async def test_an_invalid_decision_is_refused_and_changes_nothing(
    finished: Benchmarked, shift: str, body: dict[str, Any], status: int, pointer: str | None
) -> None:
    before = await finished.thresholds()
    answer = await finished.put(shift, **body)
    assert answer.status_code == status, answer.text
    if pointer is not None:
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert await finished.thresholds() == before


async def test_percentile_decisions_are_refused_while_images_are_pending(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=benchmark_services) as opened:
        fresh = await submitted(opened)
        refused = await fresh.get("/inspections", shift="in the snow")
        assert (refused.status_code, refused.json()["code"]) == (422, "dataset-empty")
        early = await fresh.put("in the snow", percentile=50.0)
        assert early.status_code == 422
        assert "are not made yet" in early.json()["detail"]
        assert (await fresh.put("in the snow", threshold=0.2)).status_code == 200
        none = await fresh.gateway.http.get("/v1/runs/nobody/shift-thresholds")
        assert none.status_code == 404
