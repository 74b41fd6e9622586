"""A fake product that learns bus codes at once and renders prompts with the world's renderer."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from counterpose import Client
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.dataset_interfaces import Image, Images, ImagesCreate, TokenItem
from counterpose_core.contract.datasets import Dataset, SourcesAdded
from counterpose_core.contract.editor import GenerateRequest
from counterpose_core.contract.runs import PageOfItems, RunList
from counterpose_core.shift_benchmark.shifts import BASE, shift_of
from counterpose_core.text.class_prompts import CLASS_SLOT, fill
from counterpose_core.types import Cost
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import Scene
from evaluation.interface_validity.fine_grained_images import FineImage, FineImageSource, words_of
from evaluation.interface_validity.fine_grained_world import FINE_CLASSES
from evaluation.validity.serving import Service
from fakes.interface_answers import a_token, an_interface_run
from fakes.sdk import URL, ok

_UNSAID = {
    "kind": "plain", "colour": "yellow", "background": "grass", "weather": "clear", "style": "photo",
    "companion": "none",
}  # fmt: skip


def fine_image(
    image_source: FineImageSource = "token", code: str = "f101", seed: int = 0, shift: str = BASE, **seen: str
) -> FineImage:
    """A plain red bus on the grass, in which an oracle sees the given ``values`` instead."""
    plain = {"object_class": "bus", **_UNSAID, "colour": "red"}
    return FineImage(image_source, code, shift, seed, plain | seen)


def drawn(prompt: str, seed: int) -> NDArray[np.uint8]:
    """The attributes that the prompt names; by default, a yellow bus on the grass."""
    return render(Scene(**{**_UNSAID, **parse(prompt)}, nuisance=seed))


class BusGateway:
    """Answers like the gateway; its requests are in ``seen``.

    A token draws exactly what its code stands for. ``unlearned`` codes have none.
    """

    def __init__(self, unlearned: str = "") -> None:
        self.seen: list[httpx.Request] = []
        self._unlearned = unlearned
        self._images: dict[str, bytes] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.seen.append(request)
        path = request.url.path
        if path.endswith(".png"):
            return httpx.Response(200, content=self._images[Path(path).stem])
        if path.endswith("/generate"):
            return self._generated(ImagesCreate.model_validate_json(request.content))
        if path.endswith("/sources"):
            return ok(SourcesAdded(added=len(json.loads(request.content)["sources"])).model_dump_json())
        if path == "/v1/datasets":
            return ok(_dataset(json.loads(request.content)["name"]).model_dump_json())
        if path.endswith("/items"):
            return ok(PageOfItems(items=[self._item(code) for code in FINE_CLASSES]).model_dump_json())
        if path.endswith("/run-1") or request.method == "POST":
            return ok(an_interface_run("completed", done=3).model_dump_json())
        return ok(RunList(runs=[]).model_dump_json())

    def bodies(self, path_ends: str) -> list[dict[str, object]]:
        """The bodies posted to paths with this ending."""
        posted = [one for one in self.seen if one.method == "POST" and one.url.path.endswith(path_ends)]
        return [json.loads(one.content) for one in posted]

    def _item(self, code: str) -> TokenItem:
        lost = code == self._unlearned
        return TokenItem(
            id=f"i-{code}", ordinal=0, kind="token", item_group="s", source_image="a" * 64, label=code,
            state="failed" if lost else "done", detail="no image can be read" if lost else None,
            result=None if lost else a_token(interpolation_weight=0.5),
        )  # fmt: skip

    def _generated(self, body: ImagesCreate) -> httpx.Response:
        shift = shift_of(body.shift or "")
        described = fill(shift.prompt, words_of("description", body.class_name) or "")
        told: list[Image] = []
        for seed in range(body.n):
            png = encode_png(drawn(described, seed))
            ref = hashlib.sha256(png).hexdigest()
            self._images[ref] = png
            slot = fill(shift.prompt, CLASS_SLOT, token=True)
            told.append(
                Image(image=ref, class_name=body.class_name, shift=shift.name, prompt=slot, seed=seed)
            )
        model = ModelIdentity(id="sd", revision="c" * 12)
        return ok(Images(images=told, model=model, cost=Cost()).model_dump_json())


class BusService(Service):
    """A service that starts nothing: a `BusGateway` answers, and the prompts it draws are recorded."""

    def __init__(self, state: Path, gateway: BusGateway) -> None:
        super().__init__(state, state)
        http = httpx.Client(transport=httpx.MockTransport(gateway), base_url=URL)
        self._own, self.prompts = Client(http=http), list[str]()

    def client(self) -> Client:
        """A client of the fake gateway."""
        return self._own

    def draw(self, request: GenerateRequest) -> NDArray[np.uint8]:
        """Draw what the prompts say."""
        self.prompts += [item.prompt for item in request.items]
        return np.stack([drawn(item.prompt, item.seed) for item in request.items])


def _dataset(name: str) -> Dataset:
    created = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return Dataset(name=name, classes=list(FINE_CLASSES), n_sources=6, digest="d" * 64, created_at=created)
