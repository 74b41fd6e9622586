"""A gateway one of whose classifiers chats: a scripted model that sees what the fakes' images show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import classifiers
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.image_recipes import digest_of_pixels
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.suite import Suite
from counterpose_core.suite_chats import ChatSuite, chats
from counterpose_gateway.services.ports import Services
from counterpose_gateway.worker.spending import LedgerAccounts
from counterpose_services.classifiers.chat.chat_classifiers import ChatClassifiers
from counterpose_services.classifiers.chat.order_effect import order_effect
from fakes.chat_server import ScriptedChat, chat_classifiers, chat_suite
from fakes.gateway import FakeGateway, fake_gateway
from fakes.images_gateway import accounted
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import FakeWorld, Shown, fake_suite


class ChattingClassifiers(FakeClassifiers):
    """Asks the product's engine where a classifier chats."""

    def __init__(self, world: FakeWorld, engine: ChatClassifiers) -> None:
        super().__init__(world)
        self._engine = engine

    async def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse:
        """Predict each image."""
        if chats(request.classifier):
            return await asyncio.to_thread(self._engine.classify, request)
        return await super().classify(request)

    async def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """Measure it."""
        return await asyncio.to_thread(order_effect, self._engine.of(request.classifier), request)

    async def list_classifiers(self) -> classifiers.ClassifierList:
        """Name all."""
        own = (await super().list_classifiers()).classifiers
        return classifiers.ClassifierList(classifiers=[*own, *self._engine.describe()])


class SeenWorld:
    """What each image of a world shows, by its pixels."""

    def __init__(self) -> None:
        self.world: FakeWorld | None = None
        self._seen: dict[str, Shown] = {}

    def of(self, pixels: Pixels) -> Shown:
        """What such an image shows."""
        assert self.world is not None
        key = digest_of_pixels(pixels)
        if key not in self._seen:
            for ref, shown in list(self.world.shown.items()):
                self._seen[digest_of_pixels(decode_image(self.world.store.get(ref)))] = shown
        return self._seen[key]

    def sees(self, pixels: Pixels, labels: Sequence[str]) -> list[float]:
        """Right on everything but what lies in the snow: there it takes the next label of the alphabet."""
        shown, names = self.of(pixels), sorted(labels)
        wrong = names[(names.index(shown.label) + 1) % len(names)]
        seen = wrong if "snow" in shown.caption else shown.label
        return [4.0 * (label == seen) for label in labels]


def chat_fake_suite(**sections: ChatSuite) -> Suite:
    """The fakes' suite with these questions, by default one named ``scene``."""
    return fake_suite().model_copy(update={"chat": sections or {"scene": chat_suite()}})


@asynccontextmanager
async def chat_gateway(
    folder: Path, server: ScriptedChat, seen: SeenWorld, suite: Suite | None = None
) -> AsyncIterator[FakeGateway]:
    """Open a gateway over such a classifier, whose images ``seen`` knows."""
    whole = suite or chat_fake_suite()
    store = BlobStore(str(folder / "store"))

    def ports(world: FakeWorld) -> Services:
        seen.world = world
        engine = chat_classifiers(server, store, **whole.chat)
        return fake_services(world, classifiers=ChattingClassifiers(world, engine))

    async with fake_gateway(folder, store=store, suite=whole, ports=ports) as gateway:
        yield gateway


async def work_accounted(gateway: FakeGateway, suite: Suite | None = None) -> None:
    """Let a worker that keeps the account work until all runs have ended."""
    services = accounted(gateway.services, LedgerAccounts(gateway.ledger), suite or chat_fake_suite())
    for _ in range(50):
        await gateway.worker(services).work_off()
        if all(run.ended_at is not None for run in gateway.ledger.runs.page().runs):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("a run did not end")
