"""Gates on a shift benchmark: the base and the shifted image of each seed, as the thresholds keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.contract.gates import GateItem, GateSummary, RegressionSet
from counterpose_core.contract.shift_benchmarks import ImageItem
from fakes.benchmarks import SHIFTS, benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway

PER_CELL = 8
SNOW, RAIN = SHIFTS


async def worked_off(gateway: FakeGateway, path: str, body: dict[str, object]) -> str:
    """Start a run, work it off and return its id."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    return str(answer.json()["id"])


async def frozen(gateway: FakeGateway, baseline: str) -> RegressionSet:
    answer = await gateway.http.post("/v1/gates/freeze", json={"baseline": baseline})
    assert answer.status_code == 200, answer.text
    return RegressionSet.model_validate_json(answer.content)


@pytest.mark.asyncio
async def test_a_gate_compares_the_shifts_of_a_benchmark_on_equal_seeds(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=benchmark_services) as gateway:
        body = benchmark_body(await uploaded(gateway), n=PER_CELL, image_sources=["token"], steps=20)
        benchmark = await worked_off(gateway, "/v1/shift-benchmarks", body)
        told = await frozen(gateway, benchmark)
        assert told.changes == {SNOW: 4 * PER_CELL, RAIN: 4 * PER_CELL}
        assert (told.pairs, told.sources, told.kind) == (64, 32, "shift-benchmark")
        compared = {
            "baseline": benchmark, "digest": told.digest, "classifiers": ["leaning"], "incumbent": "steady",
            "seed": 1,
        }  # fmt: skip
        run = await worked_off(gateway, "/v1/gates", compared)
        answer = await gateway.http.get(f"/v1/runs/{run}/summary")
        found = GateSummary.model_validate_json(answer.content)
        states = {cell.change: cell.state for cell in found.cells if cell.label is None}
        assert states[SNOW] == "failed"
        assert states[RAIN] != "failed"
        seeds = {
            item.result.image: (item.label, item.slot)
            for item in gateway.ledger.items.of(benchmark, ImageItem)
            if item.result is not None and item.result.image_source == "token"
        }
        for item in gateway.ledger.items.of(run, GateItem):
            assert item.instruction is not None
            assert seeds[item.source_image] == seeds[item.instruction.image]
        path = f"/v1/runs/{benchmark}/shift-thresholds/{RAIN}"
        decided = await gateway.http.put(path, json={"author": "me", "threshold": None})
        assert decided.status_code == 200, decided.text
        assert list((await frozen(gateway, benchmark)).changes) == [SNOW]
        refused = await gateway.http.post("/v1/gates", json=compared)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/digest")
