"""Finished images of a benchmark with chosen similarities and answers, without services or ledger."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.shift_benchmarks import (
    BenchmarkShift,
    ImageItem,
    ImageResult,
    ImageSourceOrReal,
    ShiftBenchmarkConfig,
)
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.methods.shift_benchmark.columns import ImageColumns, columns_of
from fakes.benchmarks import benchmark_request, tokens

IMAGE = "a" * 64

BASE = BenchmarkShift(name="base", prompt="A photo of a <class>", caption="a photo", family="base")
SNOW = BenchmarkShift(
    name="in the snow", prompt="A photo of a <class> in the snow", caption="a photo in the snow",
    family="background", threshold=0.2, threshold_from="published",
)  # fmt: skip
PENCIL = BenchmarkShift(
    name="pencil sketch", prompt="A pencil sketch of a <class>", caption="a pencil sketch",
    family="style", photo=False,
)  # fmt: skip


def recorded_config(
    shifts: Sequence[BenchmarkShift] = (BASE, SNOW, PENCIL),
    classes: Sequence[str] = ("plate", "sled"),
    models: Sequence[str] = ("steady", "leaning", "tipsy"),
    **request: Any,
) -> ShiftBenchmarkConfig:
    """A benchmark of these conditions, classes and models."""
    known: dict[str, Any] = {"classifiers": list(models), "image_sources": ["token"], "n": 8, "real": 10}
    return ShiftBenchmarkConfig(
        request=benchmark_request(**(known | request)), suite="miniature", dataset="demo",
        dataset_digest="d" * 64, generation=GenerationPreset(), models={}, versions={},
        classes=list(classes), labels=list(classes), shifts=list(shifts), tokens=dict(tokens(classes)),
        clip="clip",
    )  # fmt: skip


class Benchmark:
    """Items of a run, added one by one; each is done unless ``changes`` say otherwise."""

    def __init__(self, config: ShiftBenchmarkConfig) -> None:
        self.config = config
        self.items: list[ImageItem] = []

    def add(
        self,
        cell: Cell,
        slot: int,
        right: Sequence[bool],
        *,
        to_object: float = 0.3,
        to_shift: float = 0.3,
        **changes: Any,
    ) -> ImageItem:
        """Add an image with each model's answer, and its similarities."""
        item = ImageItem(
            id=f"run-1.{len(self.items)}", ordinal=len(self.items), kind="image", item_group=cell.item_group,
            source_image=IMAGE, label=cell.class_name(self.config), slot=slot, state="done",
            result=self._result(cell, right, to_object, to_shift),
        )  # fmt: skip
        self.items.append(item.model_copy(update=changes))
        return self.items[-1]

    def real(self, class_index: int, similarities: Sequence[float], right: Sequence[bool]) -> None:
        """Add real images of a class; "a <class>" is nearer by 0.1 than "a photo of a <class>"."""
        for slot, similarity in enumerate(similarities):
            self.add(Cell(0, class_index, "real"), slot, right, to_object=similarity)

    def image_source(
        self, image_source: ImageSourceOrReal, values: NDArray[np.bool_], **changes: Any
    ) -> None:
        """Add images answered as ``values`` (conditions, classes, images, models) say."""
        for condition, classes in enumerate(values):
            for class_index, images in enumerate(classes):
                for slot, right in enumerate(images):
                    self.add(Cell(condition, class_index, image_source), slot, right.tolist(), **changes)

    @property
    def columns(self) -> ImageColumns:
        """The items as a summary reads them."""
        return columns_of(self.items, self.config)

    @property
    def run(self) -> Run:
        """The run that the items belong to, a minute long."""
        states = Counter[str](item.state for item in self.items)
        start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        ends = {name: states[name] for name in ("done", "filtered", "failed", "cancelled")}
        return Run(
            id="run-1", kind="shift-benchmark", state="completed", dataset="demo", created_at=start,
            started_at=start, ended_at=start + dt.timedelta(seconds=60),
            request_counts=RequestCounts(
                total=len(self.items), pending=states["pending"] + states["leased"], **ends
            ),
            resolved_config=self.config.model_dump(mode="json"),
        )  # fmt: skip

    def _result(self, cell: Cell, right: Sequence[bool], to_object: float, to_shift: float) -> ImageResult:
        return ImageResult(
            image=IMAGE,
            image_source=cell.image_source,
            shift=cell.condition_name(self.config),
            object_similarity=to_object,
            plain_similarity=to_object + 0.1 if cell.image_source == "real" else None,
            shift_similarity=to_shift if cell.condition else None,
            predictions={
                model: answer(good)
                for model, good in zip(self.config.request.classifiers, right, strict=True)
            },
            models={"scorer": "clip@1"},
            cost=Cost(unet_evaluations=100),
            service_seconds={"editor": 2.0},
        )


def answer(right: bool) -> Scored:
    """A right or wrong answer."""
    return ranked(0.9 if right else 0.1, 1 if right else 2, [])
