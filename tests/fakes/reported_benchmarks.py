"""A benchmark with its own images, some of them dropped by a filter, as input of a report."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import BenchmarkShift, ImageResult, ImageSourceOrReal
from counterpose_core.images.codecs import encode_raw
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED, Cell
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from fakes.recorded_benchmarks import BASE, PENCIL, SNOW, Benchmark, recorded_config

CLASSES = ("plate", "sled", "boat")
MODELS = tuple(f"model-{number}" for number in range(6))
NIGHT = BenchmarkShift(
    name="at night", prompt="A photo of a <class> at night", caption="a photo at night", family="time",
    threshold=0.2, threshold_from="suite",
)  # fmt: skip
SHIFTS = (BASE, SNOW, PENCIL, NIGHT)
N = 12
SOURCES: tuple[ImageSourceOrReal, ...] = ("token", "class-name", "photographs")
SIDE = 48
PHOTOGRAPH = (255, 0, 255)
"""The colour of every image that was not generated."""


@cache
def reported_benchmark() -> Benchmark:
    """Three classes under three shifts by three image sources; there are too few boats at night."""
    config = recorded_config(
        SHIFTS,
        CLASSES,
        MODELS,
        image_sources=list(SOURCES),
        n=N,
        photographs={shift.name: "p" for shift in SHIFTS},
    )
    zoo = {
        name: ClassifierDescription(
            name=name, spec=name, architecture=("test_vit", "test_resnet")[number % 2],
            parameters=1000 * number, resolution=64, training=f"{number + 1} epochs",
        )
        for number, name in enumerate(MODELS)
    }  # fmt: skip
    made = Benchmark(config.model_copy(update={"zoo": zoo}))
    draws = np.random.default_rng(0)
    for index in range(len(CLASSES)):
        made.real(index, (0.2 + 0.01 * draws.standard_normal(20)).tolist(), [True] * len(MODELS))
    for image_source in SOURCES:
        for condition in range(len(SHIFTS)):
            for index in range(len(CLASSES)):
                _cell(made, Cell(condition, index, image_source), draws)
    return made


def _cell(made: Benchmark, cell: Cell, draws: np.random.Generator) -> None:
    cost = (0.0, 0.35, 0.1, 0.2)[cell.condition]
    shift = SHIFTS[cell.condition]
    # Boats at night are not dark enough: a thin class.
    dark = -0.2 if (shift is NIGHT and cell.class_index == 2) else 0.0
    for slot in range(N):
        skills = 0.95 - 0.12 * np.arange(len(MODELS)) - cost * (1 + 0.15 * np.arange(len(MODELS)))
        item = made.add(cell, slot, (draws.random(len(MODELS)) < skills).tolist())
        seed = 1000 + slot if cell.image_source in GENERATED else None
        name = f"{cell.image_source}/{cell.condition}/{cell.class_index}/{slot}"
        assert item.result is not None
        told = {
            "image": hashlib.sha256(name.encode()).hexdigest(),
            "seed": seed,
            "token": "b" * 64 if cell.image_source == "token" else None,
            "prompt": None if seed is None else shift.prompt,
            # "a sled" is nearer to every image than "a photo of a sled".
            "object_similarity": 0.22 + 0.1 * (not shift.photo) + 0.02 * draws.standard_normal(),
            "shift_similarity": dark + 0.25 + 0.05 * draws.standard_normal() if cell.condition else None,
            "models": {"editor": "sd@" + "c" * 12, "scorer": "clip@1"} if seed else {},
            "cost": Cost(unet_evaluations=100) if seed else Cost(),
        }
        result = ImageResult.model_validate(dict(item.result) | told)
        made.items[-1] = item.model_copy(update={"result": result})


@cache
def reported_summary() -> ShiftBenchmarkSummary:
    """Its figures, by the gateway's own statistics."""
    made = reported_benchmark()
    return summarize(made.run, made.columns)


def read_image(ref: str) -> bytes:
    """A flat image of its own colour; all photographs are equal."""
    photographs = {
        item.result.image
        for item in reported_benchmark().items
        if item.result is not None and item.result.image_source not in GENERATED
    }
    colour = PHOTOGRAPH if ref in photographs else tuple(bytes.fromhex(ref[:6]))
    return encode_raw(np.full((SIDE, SIDE, 3), colour, dtype=np.uint8))
