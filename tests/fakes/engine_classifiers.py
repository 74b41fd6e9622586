"""Classifiers of a gateway's tests that are the real engine's, so that functions of the caller are called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import classifiers as contract
from counterpose_core.suite import ClassifiersSuite
from counterpose_gateway.services.ports import Services
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeClassifiers, fake_services
from fakes.world import CLASSES, FakeWorld


class EngineClassifiers(FakeClassifiers):
    """Calls functions as the service does, and answers for every other classifier as a fake."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.functions: set[str | None] = set()
        self.engine: ClassifiersEngine | None = None

    def serve_from(self, store: BlobStore, transport: httpx.BaseTransport) -> None:
        """Read images from ``store`` and reach functions over ``transport``."""
        registry = ClassifierRegistry(
            ClassifiersSuite(), Path("nowhere"), store, ClassifierOptions(), transport=transport
        )
        self.engine = ClassifiersEngine(registry, cache_bytes=0)

    async def classify(self, request: contract.ClassifyRequest) -> contract.ClassifyResponse:
        """Predict each image."""
        if request.function is None:
            return await super().classify(request)
        self.functions.add(request.function)
        assert self.engine is not None
        return await asyncio.to_thread(self.engine.classify, request)

    async def describe(self, request: contract.DescribeRequest) -> contract.ClassifierDescription:
        """Describe a classifier."""
        if request.function is None:
            return await super().describe(request)
        assert self.engine is not None
        return await asyncio.to_thread(self.engine.describe, request)


def with_engine(world: FakeWorld) -> Services:
    """The fakes' services, whose classifiers call functions."""
    return fake_services(world, classifiers=EngineClassifiers(world))


def port_of(gateway: FakeGateway) -> EngineClassifiers:
    """The gateway's classifiers."""
    assert isinstance(gateway.services.classifiers, EngineClassifiers)
    return gateway.services.classifiers


def red(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities by how red an image is."""
    share = images[..., 0].mean(axis=(1, 2)) / 255.0
    rest = (1.0 - share) / (len(CLASSES) - 1)
    return np.stack([share, *([rest] * (len(CLASSES) - 1))], axis=1)


@asynccontextmanager
async def gateway_with_engine(folder: Path) -> AsyncIterator[FakeGateway]:
    """A gateway whose services call functions, with a dataset of one image a class."""
    with httpx.HTTPTransport() as transport:
        async with fake_gateway(folder, ports=with_engine) as opened:
            port_of(opened).serve_from(opened.store, transport)
            await opened.upload("demo", 1)
            yield opened
