"""A shift benchmark with every option set, as the SDK starts it and as its request says."""

from __future__ import annotations

from typing import Any


def benchmark(client: Any) -> Any:
    """Start a shift benchmark with every option set."""
    return client.shift_benchmarks.create(
        interface="i-1", classifiers=["a"], shifts=["in the snow"], classes=["bus"],
        class_shifts={"bus": ["at a stop"]}, base="a <class>",
        image_sources=["token", "retrieval"], retrieval="found",
        scraped={"base": "s"}, photographs={"base": "p"}, n=5, real=7, validation="kept-back", steps=4,
        guidance=2.0, scheduler="DDIMScheduler", seed=3, idempotency_key="mine",
    )  # fmt: skip


BENCHMARKED = {
    "interface": "i-1", "classifiers": ["a"], "shifts": ["in the snow"], "classes": ["bus"],
    "class_shifts": {"bus": ["at a stop"]}, "base": "a <class>",
    "image_sources": ["token", "retrieval"], "retrieval": "found",
    "scraped": {"base": "s"}, "photographs": {"base": "p"}, "n": 5, "real": 7, "validation": "kept-back",
    "steps": 4, "guidance": 2.0, "scheduler": "DDIMScheduler", "seed": 3,
}  # fmt: skip
