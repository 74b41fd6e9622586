"""A finished dataset interface, ports that know its tokens, and shift benchmarks that use both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.dataset_interfaces import DatasetInterfaceConfig, TokenResult
from counterpose_core.contract.editor import GeneratedImage, GenerateItem, GenerateRequest, GenerateResponse
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.text.class_prompts import CLASS_SLOT
from counterpose_core.types import Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.outcomes import Done
from counterpose_gateway.services.ports import Services
from fakes.gateway import FakeGateway
from fakes.ports import FakeEditor, FakeScorer, fake_services
from fakes.world import CLASSES, FakeWorld, Shown

SHIFTS = ("in the snow", "in the rain")


def token_of(label: str) -> str:
    """The bundle of a class."""
    return hashlib.sha256(f"token of {label}".encode()).hexdigest()


class TokenEditor(FakeEditor):
    """Draws what a prompt says, of the class whose token or name stands in it."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.requests: list[GenerateRequest] = []

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Make one image a prompt and seed, 2 evaluations a step each."""
        self.calls["generate"] += 1
        self.requests.append(request)
        made = [self.make(request, item) for item in request.items]
        outcomes = [Outcome[GeneratedImage](value=value) for value in made]
        evaluations = 2 * request.steps * len(outcomes)
        return GenerateResponse(
            outcomes=outcomes, model=ModelIdentity(id="fake-editor", revision="0"),
            cost=Cost(unet_calls=request.steps, unet_evaluations=evaluations),
        )  # fmt: skip

    def make(self, request: GenerateRequest, item: GenerateItem) -> GeneratedImage:
        """The image of one prompt."""
        label = next(
            name for name in CLASSES if item.token == token_of(name) or f" {name}" in f" {item.prompt}"
        )
        caption = item.prompt.replace(CLASS_SLOT, label)
        image = self.world.add(Shown(label, caption), item.seed, item.token)
        return GeneratedImage(image=image, cost=Cost(unet_evaluations=2 * request.steps))


class WordScorer(FakeScorer):
    """Embeds images and texts by their words, so that an image is like what its caption says."""

    def vector(self, text: str) -> list[float]:
        """The sum of the words' directions, and a little of each image's own."""
        shown = self.world.shown.get(text)
        words = (text if shown is None else shown.caption).lower().split()
        total = sum((np.asarray(FakeScorer.vector(self, word)) for word in words), np.zeros(256))
        if shown is not None:
            total = total + 0.3 * np.asarray(FakeScorer.vector(self, text))
        return [float(value) for value in total]


def benchmark_services(world: FakeWorld, **ports: Any) -> Services:
    """The five ports with an editor that knows tokens and a scorer that reads words."""
    known: dict[str, Any] = {"editor": TokenEditor(world), "scorer": WordScorer(world)} | ports
    return fake_services(world, **known)


def interface_config(dataset: str, classes: Sequence[str]) -> DatasetInterfaceConfig:
    """An interface as planning resolves it; its images are not those of any store."""
    return DatasetInterfaceConfig.model_validate(
        {
            "request": {"dataset": dataset, "seed": 0},
            "suite": "miniature",
            "preset": {},
            "prompts": "templates",
            "models": {},
            "versions": {},
            "dataset_digest": "d" * 64,
            "classes": list(classes),
            "images": dict.fromkeys(classes, "b" * 64),
            "link_steps": 50,
            "generation": {},
        }
    )


def learn_interface(
    ledger: Ledger,
    dataset: str = "demo",
    classes: Sequence[str] = CLASSES,
    *,
    unlearned: Sequence[str] = (),
    cancel: bool = True,
) -> str:
    """An interface whose classes are learned, but for those that were not before it was cancelled."""
    items = [
        PlannedItem(
            item_key=name, ordinal=ordinal, kind="token", item_group=name, source_image="b" * 64, label=name
        )
        for ordinal, name in enumerate(sorted(classes, key=lambda name: name in unlearned))
    ]
    config = interface_config(dataset, classes).model_dump(mode="json")
    run_id = ledger.runs.create(
        kind="dataset-interface", dataset=dataset, config=config, items=items, fingerprint="f" * 64
    ).id
    for _ in range(len(classes) - len(unlearned)):
        group = ledger.items.lease("worker", seconds=30.0, run_id=run_id)
        assert group is not None
        (item,) = group.items
        told = {
            "token": token_of(item.label), "initialiser": item.label, "steps": 10, "losses": [],
            "n_images": 1,
        }  # fmt: skip
        ledger.items.finish(item.id, item.fence, Done(result=TokenResult.model_validate(told)))
    if unlearned and cancel:
        ledger.runs.cancel(run_id)
    return run_id


def benchmark_body(interface: str, **changes: Any) -> dict[str, Any]:
    """A request for two shifts of all classes by token and name, with ``changes``."""
    return {
        "interface": interface,
        "shifts": list(SHIFTS),
        "classifiers": ["steady", "leaning"],
        "image_sources": ["token", "class-name"],
        "n": 5,
        "real": 6,
        "seed": 3,
    } | changes


def benchmark_request(interface: str = "interface", **changes: Any) -> ShiftBenchmarkCreate:
    """The same, as it is understood."""
    return ShiftBenchmarkCreate.model_validate(benchmark_body(interface, **changes))


async def uploaded(gateway: FakeGateway, per_class: int = 6, **interface: Any) -> str:
    """Upload the dataset and return the id of its interface."""
    await gateway.upload("demo", per_class)
    return learn_interface(gateway.ledger, **interface)


def tokens(classes: Sequence[str] = CLASSES) -> Mapping[str, str]:
    """The tokens of classes."""
    return {name: token_of(name) for name in classes}
