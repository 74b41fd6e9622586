"""Given pairs before real networks: a run's export read back, and renderings whose truth is known."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import counterpose_miniature
from counterpose import AsyncClient
from counterpose_core.contract import classifiers as contract
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationFigure
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_miniature.world import DATASET, VALUES, Scene, render, sample_scene
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import FakeWorld
from integration.gateway.test_operation_exports import files_of

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
NETWORK = "leaning-resnet"
Change = Callable[[Scene], Scene]


class Networks(FakeClassifiers):
    """The miniature suite's own networks."""

    engine: ClassifiersEngine

    async def classify(self, request: contract.ClassifyRequest) -> contract.ClassifyResponse:
        return await asyncio.to_thread(self.engine.classify, request)

    async def list_classifiers(self) -> contract.ClassifierList:
        return self.engine.list_classifiers()

    async def describe(self, request: contract.DescribeRequest) -> contract.ClassifierDescription:
        return await asyncio.to_thread(self.engine.describe, request)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    def ports(world: FakeWorld) -> Any:
        return fake_services(world, classifiers=Networks(world))

    async with fake_gateway(tmp_path, suite=load_suite("photographs"), ports=ports) as opened:
        own, options = load_suite("miniature").classifiers, ClassifierOptions()
        networks: Any = opened.services.classifiers
        networks.engine = ClassifiersEngine.load(own, WEIGHTS, opened.store, options)
        yield opened


def scenes(count: int, seed: int) -> list[Scene]:
    """Scenes of the dataset by day, so that night is a change of each."""
    generator = np.random.default_rng(seed)
    found = [sample_scene(generator, DATASET) for _ in range(3 * count)]
    return [each for each in found if each.weather != "night"][:count]


def at_night(scene: Scene) -> Scene:
    return scene.changed("weather", "night")


def written(path: Path, scene: Scene) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(render(scene)).save(path)
    return path.name


def tabled(path: Path, rows: Iterable[tuple[object, ...]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("source", "counterfactual", "change", "level", "control"), *rows])
    return path


async def summed_up(gateway: FakeGateway, folder: Path, name: str, **settings: Any) -> StressTestSummary:
    client = AsyncClient(http=gateway.http)
    if not any(each.name == name for each in (await client.datasets.list()).datasets):
        await client.datasets.upload(folder, name=name)
    run = await client.stress_tests.create(dataset=name, classifiers=[NETWORK], seed=1, **settings)
    await gateway.worker().work_off()
    return await run.summary()


def figures_of(summary: StressTestSummary) -> list[OperationFigure]:
    assert summary.transforms is not None
    return summary.transforms.figures


async def test_an_exported_run_read_back_as_pairs_has_the_same_figures(
    gateway: FakeGateway, tmp_path: Path
) -> None:
    for number, scene in enumerate(scenes(24, seed=5)):
        written(tmp_path / f"own/{scene.object_class}/{number}.png", scene)
    chosen = {"operations": ["rotation", "darker"], "levels": [1, 5]}
    first = await summed_up(gateway, tmp_path / "own", "own", transforms=chosen)
    out = tmp_path / "exported"
    for name, data in (await files_of(gateway, first.run_id, "imagefolder")).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    told = [json.loads(line) for line in (out / "metadata.jsonl").read_text().splitlines()]
    base = {row["artifact"][:64]: row["file_name"] for row in told if row["shift"] == "base"}
    rows = [
        (base[row["artifact"][:64]], row["file_name"], row["image_source"], int(row["scores"]["level"]),
         base[row["artifact"][:64]])
        for row in told if row["shift"] != "base"
    ]  # fmt: skip
    client = AsyncClient(http=gateway.http)
    await client.datasets.upload_pairs(tabled(out / "pairs.csv", rows), of=out / "base", name="pairs")
    again = await summed_up(gateway, out / "base", "base", transforms={"pairs": "pairs"})

    def compared(summary: StressTestSummary) -> dict[tuple[str, str], object]:
        return {
            (each.classifier, each.operation): (
                each.state, each.from_level, each.images,
                [(level.level, level.accuracy, level.loss, level.lost, level.gained, level.p, level.shown)
                 for level in each.levels],
            )
            for each in figures_of(summary)
        }  # fmt: skip

    assert compared(again) == compared(first)
    assert any(each.state == "breaks" for each in figures_of(first))
    assert first.transforms is not None
    assert again.transforms is not None
    assert again.transforms.controls == first.transforms.controls
    assert again.transforms.given is not None
    assert (again.transforms.given.used, again.transforms.given.controls) == (5 * 24, True)


async def losses(gateway: FakeGateway, drawn: list[Scene], change: Change, network: str) -> float:
    """The loss over many scenes, by renderings that no run has."""
    networks: Any = gateway.services.classifiers
    classes = list(VALUES["object_class"])
    right = list[int]()
    for made in (drawn, [change(each) for each in drawn]):
        for first in range(0, len(made), 64):
            part = made[first : first + 64]
            refs = [gateway.store.put(encode_raw(render(each))) for each in part]
            answer = networks.engine.classify(
                contract.ClassifyRequest(classifier=network, images=refs, classes=classes)
            )
            right += [
                int(classes[outcome.unwrap().top[0]] == each.object_class)
                for outcome, each in zip(answer.outcomes, part, strict=True)
            ]
    before, after = np.array_split(np.array(right), 2)
    return float((before - after).mean())


async def measured(
    gateway: FakeGateway, folder: Path, change: Change, words: str, counts: tuple[int, int], seed: int
) -> list[tuple[str, OperationFigure, float]]:
    """Each network's figure of a change in pairs of renderings, beside its loss over fresh scenes."""
    rows = list[tuple[object, ...]]()
    for number, scene in enumerate(scenes(counts[0], seed)):
        source = f"{scene.object_class}/{number}.png"
        written(folder / "day" / source, scene)
        written(folder / "changed" / source, change(scene))
        # Both are rendered in the same way, so the source is its own control.
        rows.append((source, f"changed/{source}", words, "", source))
    client = AsyncClient(http=gateway.http)
    name = folder.name
    await client.datasets.upload_pairs(
        tabled(folder / "pairs.csv", rows), of=folder / "day", name=f"{name}-pairs"
    )
    summary = await summed_up(gateway, folder / "day", name, transforms={"pairs": f"{name}-pairs"})
    fresh = scenes(counts[1], seed + 10_000)
    return [
        (each.classifier, each, await losses(gateway, fresh, change, each.classifier))
        for each in figures_of(summary)
    ]


async def test_pairs_of_a_renderer_lose_what_many_renderings_do(gateway: FakeGateway, tmp_path: Path) -> None:
    found = await measured(gateway, tmp_path / "night", at_night, "at night", (48, 256), seed=7)
    assert len(found) == 1
    for name, figure, truth in found:
        (level,) = figure.levels
        assert level.loss.low is not None
        assert level.loss.high is not None
        # A share of 256 scenes is itself known to some 0.06 only.
        assert level.loss.low - 0.06 <= truth <= level.loss.high + 0.06, name
        assert (level.loss.n, figure.left_out) == (48, 0)
