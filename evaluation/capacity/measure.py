"""Measures one service: the same items in calls of 1, 2, 4 and more, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from counterpose_core.blobs import BlobStore
from counterpose_core.suite import load_suite
from counterpose_core.types import ServiceName
from counterpose_services.settings import ServiceSettings
from evaluation.benchmarks.interleaved import interleaved
from evaluation.capacity.calls import SERVICES, Album, deployment
from evaluation.capacity.report import Engine, Rate


def sizes(most: int) -> Iterator[int]:
    """Yield 1, 2, 4 and so on up to ``most``."""
    size = 1
    while size <= most:
        yield size
        size *= 2


def measured(service: ServiceName, settings: ServiceSettings, *, repetitions: int) -> Engine:
    """Load the engine and time its calls of each size; one round more warms it up."""
    suite, kind = load_suite(settings.suite), SERVICES[service]
    started = time.monotonic()
    engine = deployment(service).load(settings)
    loaded = time.monotonic() - started
    album = Album(BlobStore(settings.store_url), suite.editor.resolution)
    work: dict[int, float] = {}

    def run(size: int) -> None:
        done = 0.0
        for _ in range(kind.most // size):
            done += kind.call(engine, suite, album.next(size))
        work[size] = done

    contestants: dict[str, Callable[[], None]] = {str(size): partial(run, size) for size in sizes(kind.most)}
    laps = interleaved(contestants, repetitions + 1)
    rates = [
        Rate(items=size, work=work[size], seconds=tuple(laps[str(size)]["wall"][1:]))
        for size in sizes(kind.most)
    ]
    return Engine(
        service=service,
        unit=kind.unit,
        batch=getattr(suite, service).batch,
        load_seconds=loaded,
        rates=tuple(rates),
    )


def private(settings: ServiceSettings, folder: Path) -> ServiceSettings:
    """Return the settings with a store of their own: nothing that was computed before is found."""
    return settings.model_copy(update={"store_url": str(folder)})
