"""Shift benchmarks over HTTP: planned from an interface, processed by a worker, recorded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio

from counterpose_core.contract.base import Problem
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ShiftBenchmarkConfig
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_gateway.methods.shift_benchmark.columns import columns_of, read_columns
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.shift_benchmark.report import first_screen
from counterpose_gateway.methods.shift_benchmark.report.report import render
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.services.ports import Services
from counterpose_gateway.summaries.summaries import Report, Summary
from fakes.benchmarks import (
    TokenEditor,
    WordScorer,
    benchmark_body,
    benchmark_services,
    token_of,
    uploaded,
)
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.world import CLASSES, FakeWorld

ROOT = "/v1/shift-benchmarks"
N, REAL = 5, 6


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path, ports=benchmark_services) as opened:
        yield opened


@dataclass(frozen=True)
class Finished:
    """A gateway with a benchmark that has ended; tests that only read it share it."""

    gateway: FakeGateway
    run: Run

    @property
    def images(self) -> list[ImageItem]:
        """Every item of the benchmark."""
        return list(self.gateway.ledger.items.of(self.run.id, ImageItem))

    async def get(self, path: str = "", **options: Any) -> httpx.Response:
        """Ask for something of the run."""
        return await self.gateway.http.get(f"/v1/runs/{self.run.id}{path}", **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Finished]:
    async with fake_gateway(tmp_path_factory.mktemp("finished"), ports=benchmark_services) as opened:
        run = await created(opened, await uploaded(opened), steps=20)
        await opened.worker().work_off()
        yield Finished(opened, run)


async def post(gateway: FakeGateway, interface: str, **changes: Any) -> httpx.Response:
    return await gateway.http.post(ROOT, json=benchmark_body(interface, **changes))


async def created(gateway: FakeGateway, interface: str, **changes: Any) -> Run:
    answer = await post(gateway, interface, **changes)
    assert answer.status_code == 202, answer.text
    return Run.model_validate_json(answer.content)


@pytest.mark.paper("DI-S3.1-object-metric", "DI-S3.1-shift-metric")
async def test_a_benchmark_runs_from_interface_to_recorded_images(finished: Finished) -> None:
    gateway, run = finished.gateway, finished.run
    assert run.kind == "shift-benchmark"
    assert run.request_counts.total == 4 * (REAL + 3 * 2 * N)
    assert gateway.ledger.runs.get(run.id).state == "completed"
    assert violated(gateway.ledger, run.id) == []
    for item in finished.images:
        assert item.result is not None
        assert set(item.result.predictions) == {"steady", "leaning"}
        assert (item.result.seed is not None) == (item.result.image_source in ("token", "class-name"))
        assert (item.result.plain_similarity is not None) == (item.result.image_source == "real")
        assert (item.result.shift_similarity is None) == (item.result.shift == "base")


async def test_the_columns_of_the_ledger_are_those_of_the_items(finished: Finished) -> None:
    config = ShiftBenchmarkConfig.model_validate(finished.run.resolved_config)
    found = read_columns(finished.run, finished.gateway.ledger)
    known = columns_of(finished.images, config)
    assert len(found) == len(finished.images)
    for name, column in vars(known).items():
        if isinstance(column, np.ndarray):
            np.testing.assert_array_equal(getattr(found, name), column, name)
    assert {name: usage.cost for name, usage in found.usage.items()} == {
        name: usage.cost for name, usage in known.usage.items()
    }


async def test_a_report_reads_only_the_images_that_it_may_show(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, run, items = finished.gateway.ledger, finished.run, finished.images
    runs = RecordedRuns(ledger=ledger, store=finished.gateway.store)
    summing = Summary(SHIFT_BENCHMARK, run.id, OBJECT_PERCENTILE)
    summary = summing(runs)
    whole = render(summary, ledger.runs.get(run.id), items, runs.store.get)
    monkeypatch.setattr(ledger.items, "of", None)
    assert Report(summing, summary)(runs) == whole
    monkeypatch.setattr(first_screen, "SHOWN_SEEDS", 2)
    conditions_and_sources, classes = 3 * 2 + 1, 4
    assert len(first_screen.shown_images(summary, ledger)) == conditions_and_sources * classes * 2


async def test_base_shifts_and_sources_share_seeds(finished: Finished) -> None:
    seeds: dict[tuple[str, int], set[int]] = {}
    for item in finished.images:
        if item.result is not None and item.result.seed is not None:
            seeds.setdefault((item.label, item.slot), set()).add(item.result.seed)
    assert len(seeds) == 4 * N
    assert all(len(found) == 1 for found in seeds.values())
    assert len({seed for found in seeds.values() for seed in found}) == 4 * N


@pytest.mark.paper("DI-B-class-name")
async def test_tokens_fill_the_slot_and_names_are_written_into_the_prompt(finished: Finished) -> None:
    editor = finished.gateway.services.editor
    assert isinstance(editor, TokenEditor)
    asked = {(item.prompt, item.token) for request in editor.requests for item in request.items}
    assert ("A photo of a <class> in the snow", token_of("sled")) in asked
    assert ("A photo of a sled in the snow", None) in asked


async def test_the_base_is_generated_from_the_requested_prompt(gateway: FakeGateway) -> None:
    interface = await uploaded(gateway)
    run = await created(gateway, interface, base="a photo of a <class> on the grass")
    await gateway.worker().work_off()
    prompts = {
        item.result.prompt
        for item in gateway.ledger.items.of(run.id, ImageItem)
        if item.result is not None and (item.result.shift, item.result.image_source) == ("base", "class-name")
    }
    assert prompts == {f"a photo of a {name} on the grass" for name in CLASSES}
    for base, said in (("a photo of a sled", "no <class>"), ("a <class> " + "so " * 80, "words")):
        refused = await post(gateway, interface, base=base)
        problem = Problem.model_validate_json(refused.content)
        assert (refused.status_code, [each.pointer for each in problem.errors]) == (422, ["/base"])
        assert said in problem.detail


async def test_the_cost_of_all_images_is_counted_once(finished: Finished) -> None:
    costs = [item.result.cost for item in finished.images if item.result]
    generated = 4 * 3 * 2 * N
    assert sum(cost.unet_evaluations for cost in costs) == generated * 2 * 20
    assert sum(cost.unet_calls for cost in costs) == 4 * 3 * 2 * 20
    assert finished.gateway.ledger.measurements.read().cost.unet_evaluations == generated * 2 * 20


@pytest.mark.fault("F19")
async def test_a_cancelled_interface_provides_finished_classes_and_lists_the_missing(
    gateway: FakeGateway,
) -> None:
    interface = await uploaded(gateway, unlearned=("kite",))
    run = await created(gateway, interface)
    config = ShiftBenchmarkConfig.model_validate(run.resolved_config)
    assert config.missing == ["kite"]
    assert config.classes == [name for name in CLASSES if name != "kite"]
    assert sorted(config.labels) == sorted(CLASSES)
    refused = await post(gateway, interface, classes=["plate", "kite"])
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/classes/1")
    by_name = await created(gateway, interface, classes=["kite"], image_sources=["class-name"])
    assert by_name.request_counts.total == REAL + 3 * N


@pytest.mark.paper("DI-B-retrieval")
async def test_images_are_both_retrieved_and_generated(gateway: FakeGateway) -> None:
    interface = await uploaded(gateway)
    await gateway.upload("snowy", 3, CLASSES[:2])
    brought = {"base": "demo", "in the snow": "snowy"}
    run = await created(
        gateway,
        interface,
        classes=["plate", "sled"],
        image_sources=["scraped", "photographs", "retrieval"],
        scraped=brought,
        photographs=brought,
        retrieval="snowy",
    )
    await gateway.worker().work_off()
    found: dict[str, list[ImageItem]] = {}
    for item in gateway.ledger.items.of(run.id, ImageItem):
        assert item.state in ("done", "pending") or item.reason == "not-found"
        found.setdefault(item.item_group.split(".")[2], []).append(item)
    # Of 6 base images five are asked for; there are 3 of the snow, and nothing of the rain.
    assert len(found["scraped"]) == len(found["photographs"]) == 2 * (N + 3)
    assert all(item.result and item.result.image == item.source_image for item in found["photographs"])
    assert Counter(item.state for item in found["retrieval"]) == {"done": 2 * 3 * N}
    assert {item.result.prompt for item in found["retrieval"] if item.result} >= {
        "A photo of a sled in the rain"
    }


class PlainScorer(WordScorer):
    """Embeds what an image shows and nothing of its own: images of one scene are nearly equal."""

    def vector(self, text: str) -> list[float]:
        shown = self.world.shown.get(text)
        return super().vector(text if shown is None else shown.caption)


async def test_retrieved_copies_and_frames_of_one_video_count_once(tmp_path: Path) -> None:
    def ports(world: FakeWorld) -> Services:
        return benchmark_services(world, scorer=PlainScorer(world))

    async with fake_gateway(tmp_path, ports=ports) as gateway:
        interface = await uploaded(gateway)
        await gateway.http.post("/v1/datasets", json={"name": "folder"})
        sources = [gateway.source(label, number) for label in CLASSES[:2] for number in range(N)]
        sources[0]["group"] = "video"
        await gateway.http.post("/v1/datasets/folder/sources", json={"sources": sources})
        run = await created(
            gateway,
            interface,
            classes=list(CLASSES[:2]),
            image_sources=["retrieval"],
            retrieval="folder",
        )
        await gateway.worker().work_off()
        config = ShiftBenchmarkConfig.model_validate(gateway.ledger.runs.get(run.id).resolved_config)
        assert list(config.groups.values()) == ["folder/video"]
        found = [
            item
            for item in gateway.ledger.items.of(run.id, ImageItem)
            if item.result is not None and item.result.image_source == "retrieval"
        ]
        # Each search finds five images of one scene: four are copies of the best.
        assert Counter((item.result.alike is None) for item in found if item.result) == {
            True: 2 * 3, False: 2 * 3 * (N - 1),
        }  # fmt: skip
        answer = await gateway.http.get(f"/v1/runs/{run.id}/summary")
        summary = ShiftBenchmarkSummary.model_validate_json(answer.content)
        # One scene is no five independent images, so nothing is claimed.
        assert summary.image_sources["retrieval"].shifts["in the snow"].effect is None
        assert "28 of 30 retrieved images count once" in " ".join(summary.notes)


async def test_the_summary_reports_the_drop_of_each_shift(finished: Finished) -> None:
    answer = await finished.get("/summary")
    assert answer.status_code == 200, answer.text
    summary = ShiftBenchmarkSummary.model_validate_json(answer.content)
    for image_source in summary.image_sources.values():
        snow = image_source.shifts["in the snow"]
        assert snow.effect is not None
        assert snow.effect.models["leaning"].drop.estimate == pytest.approx(1.0)
        assert snow.effect.models["steady"].drop.estimate == pytest.approx(0.0)
        assert snow.effect.impact.estimate == pytest.approx(0.5)
        assert snow.counts.planned == 4 * N
