"""How fast a hunt draws and classifies, against how fast its generator draws when it does nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_core.contract.editor import GenerateItem, GenerateRequest, GenerateResponse
from counterpose_gateway.services.ports import Services
from evaluation.load.measuring import Load, row
from evaluation.load.pipeline import HANDS, until_ended
from evaluation.load.report import LoadRow
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import HuntClassifiers, HuntEditor, hunted_services
from fakes.world import FakeWorld

IMAGE_SECONDS = 0.1
"""Of the generator, which draws one image after the other."""

CLASSIFY_SECONDS = 0.04
"""Of each classifier for an image; both read one image after the other."""

OF_OWN_RATE = 0.9
OWN, BATCH = 160, 16
LOOP: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "seed": 5,
    "descriptions": ["a photo of a plate in the snow", "a photo of a plate on the sand"],
}  # fmt: skip
SEARCH: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate"], "seed": 5, "hypotheses": 6, "captions": 24,
}  # fmt: skip


def paces(load: Load) -> Iterator[LoadRow]:
    """Yield the rate of images that are drawn and classified, and of a whole search, over the generator's."""
    held_out, budget, least = (16, 300, 32) if load.quick else (160, 800, 96)
    loop = LOOP | {"budget": {"images": 3 * held_out}, "held_out": held_out}
    search = SEARCH | {"budget": {"images": budget}, "held_out": least}
    own = asyncio.run(_own_rate(_folder(load), OWN // 5 if load.quick else OWN))
    yield row("hunts", "samples of the generator alone", "/s", [own], meets=())
    for name, body in (("samples drawn and classified", loop), ("samples of a whole search", search)):
        images, rate = asyncio.run(_rate(_folder(load), body))
        given = {"meets": (), "n": images, "target": OF_OWN_RATE, "side": "at least"}
        yield row("hunts", f"{name}, over the generator's own rate", "", [rate / own], **given)


def _folder(load: Load) -> Path:
    return Path(mkdtemp(dir=load.folder))


class SlowEditor(HuntEditor):
    """Takes its time for each image, one call at a time."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self._free = asyncio.Lock()

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Draw the images when those before are drawn."""
        async with self._free:
            await asyncio.sleep(IMAGE_SECONDS * len(request.items))
            return await super().generate(request)


class SlowClassifiers(HuntClassifiers):
    """Take their time for each image, each classifier one call at a time."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self._free: dict[str, asyncio.Lock] = {}

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answer when the calls before are answered."""
        async with self._free.setdefault(request.classifier, asyncio.Lock()):
            await asyncio.sleep(CLASSIFY_SECONDS * len(request.images))
            return await super().classify(request)


def _slow_services(world: FakeWorld) -> Services:
    services = hunted_services(world)
    return replace(services, editor=SlowEditor(world), classifiers=SlowClassifiers(world))


async def _own_rate(folder: Path, images: int) -> float:
    """Return the images a second of the generator, asked in batches without a pause."""
    async with fake_gateway(folder, ports=_slow_services) as gateway:
        start = time.perf_counter()
        for first in range(0, images, BATCH):
            asked = [
                GenerateItem(prompt="a photo of a plate", seed=first + number) for number in range(BATCH)
            ]
            await gateway.services.editor.generate(GenerateRequest(items=asked))
        return images / (time.perf_counter() - start)


async def _rate(folder: Path, body: dict[str, Any]) -> tuple[int, float]:
    """Return the images of a hunt and how many a second it drew, from the first lease to its end."""
    async with fake_gateway(folder, ports=_slow_services) as gateway:
        run_id = await _created(gateway, body)
        start = time.perf_counter()
        await until_ended(gateway, gateway.worker(concurrency=HANDS), run_id)
        taken = time.perf_counter() - start
        summary = (await gateway.http.get(f"/v1/runs/{run_id}/summary")).json()
        return summary["images"], summary["images"] / taken


async def _created(gateway: FakeGateway, body: dict[str, Any]) -> str:
    answer = await gateway.http.post("/v1/bug-hunts", json=body)
    answer.raise_for_status()
    return str(answer.json()["id"])
