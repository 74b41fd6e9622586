"""The product's runs: a dataset uploaded, its classes learned, all shifts of them drawn and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from counterpose import Client, DatasetInterface, ShiftBenchmark
from counterpose._sync.run_resource import RunResource
from counterpose_miniature.world.scene import Scene
from evaluation.validity.kept import kept
from evaluation.validity.order import scenes_key
from evaluation.validity.running import DATASET, R, rest_others, take_up, watched
from evaluation.validity.sources import upload

from .order import LEARNED_FROM, THRESHOLDS_FROM, Order
from .world_shifts import BASE_PROMPT, WorldShift

_RUN_ID = TypeAdapter(str)


def uploaded(client: Client, scenes: Mapping[str, Sequence[Scene]]) -> str:
    """Make a dataset of scenes if it does not exist; return its name."""
    flat = [scene for each in scenes.values() for scene in each]
    name = f"{DATASET}{scenes_key(flat)}"
    upload(client, name, flat)
    return name


def finished(client: Client, path: Path, runs: RunResource[R], begin: Callable[[], R]) -> R:
    """Start or resume the run whose id is stored at ``path``, and follow it to its end.

    Runs left open by earlier validations are cancelled: they would share the machine.
    """
    run_id = kept(path, _RUN_ID, lambda: begin().id)
    kinds: tuple[RunResource[Any], ...] = (client.dataset_interfaces, client.shift_benchmarks)
    for kind in kinds:
        rest_others(kind, run_id)
    return watched(take_up(runs, run_id))


def begin_interface(client: Client, order: Order) -> DatasetInterface:
    """Start learning a token of each class; a repeated call returns the same run."""
    return client.dataset_interfaces.create(
        dataset=uploaded(client, order.scenes(LEARNED_FROM, order.learned)),
        steps=order.steps,
        seed=order.number,
        idempotency_key=f"validity-{order.split.name}-{order.number}-{order.interface_key()}",
    )


def begin_benchmark(client: Client, order: Order, interface: str) -> ShiftBenchmark:
    """Start the benchmark of both image sources; its thresholds use images that no token was learned from."""
    return client.shift_benchmarks.create(
        interface=interface,
        base=BASE_PROMPT,
        shifts=words(order.shifts),
        classifiers=list(order.specs),
        image_sources=["token", "class-name"],
        n=order.images,
        real=order.thresholds,
        validation=uploaded(client, order.scenes(THRESHOLDS_FROM, order.thresholds)),
        seed=order.number,
        idempotency_key=f"validity-{order.split.name}-{order.number}-{order.benchmark_key()}",
    )


def words(shifts: Sequence[WorldShift]) -> list[str]:
    """Shifts in the form of a benchmark's request."""
    return [shift.text for shift in shifts]
