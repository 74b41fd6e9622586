"""Shift thresholds by the paper's procedure (A.3), through the product; the oracle replaces the person."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from counterpose import Client, DatasetInterface, ShiftBenchmark
from counterpose_core.contract.shift_thresholds import Inspections
from evaluation.oracle import Oracle
from evaluation.validity.judging import Look, decoded

from .order import LEARNED_FROM, Order
from .runs import finished, uploaded, words
from .world_shifts import BASE_PROMPT, WorldShift

AUTHOR = "oracle"
CLASSIFIER = "zoo-vit-long"
"""A benchmark needs a classifier; a threshold does not depend on it."""
_TOKEN_STEPS, _TOKEN_IMAGES = 1, 2


def calibrated(client: Client, order: Order) -> dict[str, float | None]:
    """Each shift's threshold on images of class names, None where no percentile is good enough."""
    folder = order.folder / "calibration"
    interface = finished(
        client, folder / "interface.json", client.dataset_interfaces, lambda: _interface(client, order)
    )
    bench = finished(
        client,
        folder / f"benchmark-{order.images}.json",
        client.shift_benchmarks,
        lambda: _benchmark(client, order, interface.id),
    )
    look = Oracle.load().attributes
    return {shift.name: _accepted(bench, shift, look) for shift in order.shifts}


def _interface(client: Client, order: Order) -> DatasetInterface:
    # A benchmark needs an interface; its tokens are not used here, and need not be good.
    return client.dataset_interfaces.create(
        dataset=uploaded(client, order.scenes(LEARNED_FROM, _TOKEN_IMAGES)),
        steps=_TOKEN_STEPS,
        vectors=1,
        seed=order.number,
    )


def _benchmark(client: Client, order: Order, interface: str) -> ShiftBenchmark:
    return client.shift_benchmarks.create(
        interface=interface,
        base=BASE_PROMPT,
        shifts=words(order.shifts),
        classifiers=[CLASSIFIER],
        image_sources=["class-name"],
        n=order.images,
        real=0,
        seed=order.number,
    )


def _accepted(bench: ShiftBenchmark, shift: WorldShift, look: Look) -> float | None:
    shows = shown(bench.inspections(shift.name), shift, bench.image, look)
    return bench.judge_shift(shift.name, shows, AUTHOR).threshold


def shown(
    inspected: Inspections, shift: WorldShift, fetch: Callable[[str], bytes], look: Look
) -> dict[str, bool]:
    """Whether the oracle sees the shift in each inspected image, by its item's id."""
    images = {one.item: one.image for each in inspected.inspections for one in each.images}
    pixels: NDArray[np.uint8] = np.stack([decoded(fetch(image)) for image in images.values()])
    seen: list[Mapping[str, str]] = list(look(pixels))
    return {item: shift.shown_by(one) for item, one in zip(images, seen, strict=True)}
