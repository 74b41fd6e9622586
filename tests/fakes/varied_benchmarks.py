"""Benchmarks with a bit of everything, drawn at random: what a summary of recorded items may meet."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any

import numpy as np

from counterpose_core.contract.shift_benchmarks import ImageItem, ImageResult, ImageSource, RetrievalManifest
from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED, Cell
from counterpose_gateway.methods.shift_benchmark.images import UnreadableImages
from fakes.recorded_benchmarks import BASE, PENCIL, SNOW, Benchmark, recorded_config
from fakes.store import FakeStore

CLASSES = ("plate", "sled", "boat")
MODELS = ("steady", "leaning", "tipsy")
ALL: tuple[ImageSource, ...] = ("token", "class-name", "retrieval", "scraped", "photographs")
ASLEEP = SNOW.model_copy(update={"name": "asleep", "classes": ["sled", "boat"], "threshold": None})
N, REAL = 9, 14
WHY = "it failed on this image"


def varied_benchmark(seed: int, image_sources: tuple[ImageSource, ...] = ALL, **request: Any) -> Benchmark:
    """A benchmark whose items ended in every way, with groups, copies and unanswered images."""
    draws = np.random.default_rng(seed)
    named: dict[str, Any] = {}
    for name in ("scraped", "photographs"):
        if name in image_sources:
            named[name] = {"base": name, SNOW.name: name}
    retrieval = "folder" if "retrieval" in image_sources else None
    known: dict[str, Any] = {"image_sources": list(image_sources), "n": N, "real": REAL} | named
    shifts = (BASE, SNOW, PENCIL, ASLEEP)
    config = recorded_config(shifts, CLASSES, MODELS, retrieval=retrieval, **(known | request))
    manifest = RetrievalManifest(digest="d" * 64, images="e" * 64, count=300) if retrieval else None
    made = Benchmark(config.model_copy(update={"retrieval": manifest}))
    groups: dict[str, str] = {}
    for cell, slots in _cells(made, draws):
        for slot in range(slots):
            _add(made, cell, slot, draws, groups)
    made.config = made.config.model_copy(update={"groups": groups})
    return made


def _cells(made: Benchmark, draws: np.random.Generator) -> list[tuple[Cell, int]]:
    """Every cell and its number of images; the last class has few real images."""
    real, n = made.config.request.real, made.config.request.n
    few = (real, real, real // 5)
    cells = [(Cell(0, index, "real"), slots) for index, slots in enumerate(few)]
    for condition, shift in enumerate(made.config.shifts):
        for index, name in enumerate(CLASSES):
            for image_source in made.config.request.image_sources if shift.applies_to(name) else ():
                brought = image_source in ("scraped", "photographs")
                if not brought or condition < 2:
                    slots = int(draws.integers(n - 3, n + 1)) if brought else n
                    cells.append((Cell(condition, index, image_source), slots))
    return cells


def _add(
    made: Benchmark, cell: Cell, slot: int, draws: np.random.Generator, groups: dict[str, str]
) -> ImageItem:
    right = draws.random(len(MODELS)) < 0.9 - 0.25 * (cell.condition > 0) - 0.1 * np.arange(len(MODELS))
    item = made.add(cell, slot, right.tolist(), **_end(draws))
    if item.result is None:
        return item
    image, alike = _image(cell, slot, draws)
    if cell.image_source not in GENERATED and draws.random() < 0.25:
        groups[image] = f"{item.label}/video-{draws.integers(4)}"
    told = _told(item.result, image, alike, cell, draws)
    made.items[-1] = item.model_copy(update={"result": ImageResult.model_validate(dict(item.result) | told)})
    return made.items[-1]


def _end(draws: np.random.Generator) -> dict[str, Any]:
    ends: list[dict[str, Any]] = [
        {"state": "failed", "code": "internal-error", "detail": "no image", "result": None},
        {"state": "failed", "code": "bad-backend-output", "result": None},
        {"state": "filtered", "reason": "objectionable"},
        {"state": "filtered", "reason": "not-found", "result": None},
        {"state": "cancelled", "result": None},
        {"state": "pending", "result": None},
        {"state": "leased", "result": None},
    ]
    drawn = int(draws.integers(60))
    return ends[drawn] if drawn < len(ends) else {}


def _image(cell: Cell, slot: int, draws: np.random.Generator) -> tuple[str, str | None]:
    """The image of an item; those of retrieval are found again, or are alike to another one."""
    if cell.image_source != "retrieval":
        return _digest(cell.item_group, slot), None
    image = _digest(cell.class_index, int(draws.integers(60)))
    alike = _digest(cell.class_index, int(draws.integers(60))) if draws.random() < 0.2 else None
    return image, alike


def _told(
    result: ImageResult, image: str, alike: str | None, cell: Cell, draws: np.random.Generator
) -> dict[str, Any]:
    silent = [name for name in MODELS if draws.random() < 0.05]
    predictions = {
        name: ranked(float(draws.random()), 1 if each.right else 2, [("sled", 0.5)])
        for name, each in result.predictions.items()
        if name not in silent
    }
    left_out = cell.image_source == "retrieval" and draws.random() < 0.3
    to_object = 0.25 + 0.05 * float(draws.standard_normal())
    return {
        "image": image,
        "alike": alike,
        "unsearched": unsearched_list() if left_out else None,
        "object_similarity": to_object,
        "plain_similarity": to_object + 0.1 if cell.image_source == "real" else None,
        "shift_similarity": 0.27 + 0.05 * float(draws.standard_normal()) if cell.condition else None,
        "predictions": predictions,
        "unanswered": {name: WHY for name in silent if draws.random() < 0.8},
        "models": {"scorer": "clip@2" if draws.random() < 0.02 else "clip@1"},
        "cost": Cost(unet_evaluations=int(draws.integers(100)), seconds=float(draws.random())),
        "service_seconds": {"editor": float(draws.random()), "scorer": 0.25},
    }  # fmt: skip


def _digest(*names: object) -> str:
    return hashlib.sha256(repr(names).encode()).hexdigest()


_LOST = json.dumps({"f" * 64: "image-undecodable"}).encode()


def unsearched_list() -> str:
    """The reference of the list of images that searches left out."""
    return hashlib.sha256(_LOST).hexdigest()


def folder() -> UnreadableImages:
    """Reads that list."""
    store = FakeStore()
    store.put(_LOST)
    return UnreadableImages(store.get, lambda _: {"f" * 64: "lost.png"})


def decisions() -> list[ShiftThresholdDecision]:
    """A reviewer's thresholds: one shift's is raised, and nothing passes under another."""
    known: dict[str, Any] = {
        "checkpoint": "clip", "author": "Ada", "decided_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }  # fmt: skip
    return [
        ShiftThresholdDecision(id=1, shift=SNOW.name, threshold=0.22, **known),
        ShiftThresholdDecision(id=2, shift=PENCIL.name, threshold=None, **known),
    ]
