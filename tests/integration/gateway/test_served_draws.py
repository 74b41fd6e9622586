"""Images from text of a server of others: items and exports say where they come from, by any method."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.editor import GeneratedImage, GenerateRequest, GenerateResponse
from counterpose_core.contract.served_images import ServedImage
from counterpose_gateway.services.ports import Editor, Services
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunted_world import hunted_services
from fakes.store import image
from fakes.world import FakeWorld, Shown

HUNT = {"classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 80}, "held_out": 16,
        "hypotheses": 1, "winners": 1, "captions": 4, "vary": 0.0, "seed": 5}  # fmt: skip
SENT = 7
"""The seed that the server took, whatever the item's own is."""


class ServedDraws:
    """An editor whose images from text a server makes, with a seed or without."""

    def __init__(self, editor: Editor, seed: int | None) -> None:
        self._editor, self._seed = editor, seed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._editor, name)

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Draw as the other editor does."""
        answer = await self._editor.generate(request)
        outcomes: list[Outcome[GeneratedImage]] = [
            Outcome(value=made.model_copy(update={"served": self._served(made.image)}))
            for made in (outcome.unwrap() for outcome in answer.outcomes)
        ]
        return answer.model_copy(update={"outcomes": outcomes})

    def _served(self, made: str) -> ServedImage:
        return ServedImage(
            server="images.example",
            model="drawer-1",
            seed=self._seed,
            answer=made,
            size=(64, 64),
            seconds=1.0,
        )


def served(services: Callable[[FakeWorld], Services], seed: int | None, world: FakeWorld) -> Services:
    found = services(world)
    return replace(found, editor=cast(Editor, ServedDraws(found.editor, seed)))


async def drawn(gateway: FakeGateway, path: str, body: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Work a run off; return its id, and the results of its items that have an image from text."""
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    await gateway.worker().work_off()
    run = answer.json()["id"]
    items = (await gateway.http.get(f"/v1/runs/{run}/items", params={"limit": 500})).json()["items"]
    results = [item["result"] | {"id": item["id"]} for item in items if item["result"]]
    return run, [result for result in results if result["prompt"] and result["seed"] is not None]


async def rows(gateway: FakeGateway, run: str) -> list[dict[str, Any]]:
    """The rows of a run's export."""
    exported = await gateway.http.get(f"/v1/runs/{run}/export", params={"format": "imagefolder"})
    assert exported.status_code == 200, exported.text
    with tarfile.open(fileobj=io.BytesIO(exported.content)) as archive:
        written = archive.extractfile("metadata.jsonl")
        assert written is not None
        return [json.loads(line) for line in written.read().decode().splitlines()]


async def wild(gateway: FakeGateway) -> dict[str, Any]:
    """The request of an adversarial dataset, from photographs in snow."""
    sources = []
    for number in range(12):
        shown = Shown("plate", "a photo of a plate in the snow")
        gateway.world.add(shown, number)
        sources.append(gateway.upload_of(image(shown, number), "plate"))
    await gateway.http.post("/v1/datasets", json={"name": "wild"})
    await gateway.http.post("/v1/datasets/wild/sources", json={"sources": sources})
    seeds = {"kind": "dataset", "dataset": "wild"}
    return {"classifiers": ["leaning"], "seeds": seeds, "samples": 8, "most_kept": 4, "images": 60,
            "baseline": 8, "seed": 5}  # fmt: skip


@pytest.mark.parametrize("seed", [SENT, None])
async def test_a_hunt_s_images_say_which_server_drew_them(tmp_path: Path, seed: int | None) -> None:
    async with fake_gateway(tmp_path, ports=partial(served, hunted_services, seed)) as gateway:
        run, results = await drawn(gateway, "/v1/bug-hunts", HUNT)
        page = (await gateway.http.get(f"/ui/runs/{run}/items/{results[0]['id']}")).text
    assert results
    for result in results:
        told = ServedImage.model_validate(result["served"])
        assert (told.server, told.model, told.seed, told.answer) == (
            "images.example", "drawer-1", seed, result["image"],
        )  # fmt: skip
    assert "<code>drawer-1 at images.example</code>" in page
    [shown] = re.findall(r"<dt>seed</dt>\s*<dd><code>(.*?)</code>", page) or [None]
    assert shown == (None if seed is None else str(seed))


@pytest.mark.parametrize("seed", [SENT, None])
async def test_a_dataset_s_export_has_the_seed_that_the_server_took(tmp_path: Path, seed: int | None) -> None:
    async with fake_gateway(tmp_path, ports=partial(served, hunted_services, seed)) as gateway:
        run, results = await drawn(gateway, "/v1/adversarial-datasets", await wild(gateway))
        found = await rows(gateway, run)
    assert {result["served"]["seed"] for result in results} == {seed}
    assert found
    assert {row["seed"] for row in found} == {seed}


@pytest.mark.parametrize("seed", [SENT, None])
async def test_a_benchmark_s_export_has_the_seed_that_the_server_took(
    tmp_path: Path, seed: int | None
) -> None:
    async with fake_gateway(tmp_path, ports=partial(served, benchmark_services, seed)) as gateway:
        body = benchmark_body(await uploaded(gateway), n=4, image_sources=["class-name"], steps=20)
        run, results = await drawn(gateway, "/v1/shift-benchmarks", body)
        found = await rows(gateway, run)
    assert {result["served"]["seed"] for result in results} == {seed}
    assert found
    assert {row["seed"] for row in found} == {seed}


async def test_images_that_no_server_drew_name_none(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=hunted_services) as gateway:
        _, results = await drawn(gateway, "/v1/bug-hunts", HUNT)
    assert results
    assert not [result for result in results if "served" in result]
