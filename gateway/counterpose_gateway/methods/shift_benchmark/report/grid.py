"""Grids of a benchmark's images: one row per class, one column per seed, the base above the shift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageResult, ImageSource
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.thresholds import Verdict, filter_verdict
from counterpose_gateway.reports.images import Album, Inline

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


SHOWN_CLASSES = 4
SHOWN_SEEDS = 6
THUMBNAIL = 128
"""Pixels of the longest side: 23 shifts of 24 images each stay below 20 MB."""

_Made = dict[tuple[str, str, int], tuple[ImageItem, ImageResult]]
"""Condition, class and slot of each image that was made."""


@dataclass(frozen=True)
class Thumbnail:
    """An image of the grid, and the filter's verdict on it."""

    image: Inline | None
    verdict: Verdict
    prompt: str
    item: str


@dataclass(frozen=True)
class Cell:
    """One seed of a class: the base image and the shifted one; None where an image is missing."""

    base: Thumbnail | None
    shifted: Thumbnail | None


@dataclass(frozen=True)
class Grid:
    """A shift's images from one image source: class to cells, in the benchmark's order."""

    shift: str
    image_source: str
    rows: dict[str, list[Cell]]
    paired: bool


def shown_classes(summary: ShiftBenchmarkSummary) -> dict[str, list[str]]:
    """Condition → the classes whose images its grid shows."""
    return {
        shift.name: [name for name in summary.config.classes if shift.applies_to(name)][:SHOWN_CLASSES]
        for shift in summary.config.shifts
    }


def shown_images(summary: ShiftBenchmarkSummary, ledger: Ledger) -> list[ImageItem]:
    """Read the images that grids may show, some thousand whatever the run's size."""
    wanted = {name for classes in shown_classes(summary).values() for name in classes}
    ids = [
        item.id
        for item in ledger.items.recorded(summary.run_id)
        if item.state == "done" and item.slot < SHOWN_SEEDS and item.label in wanted
    ]
    return ledger.items.named(summary.run_id, ImageItem, ids)


def grids(
    summary: ShiftBenchmarkSummary, items: Iterable[ImageItem], album: Album, *, run: str
) -> list[Grid]:
    """A grid for each shift: its first classes, from the first image source that has images of it."""
    shown = shown_classes(summary)
    wanted = {name for classes in shown.values() for name in classes}
    made: dict[str, _Made] = {}
    # A benchmark may have a million images: keep only those that may be shown.
    for item in items:
        result = item.result if item.state == "done" else None
        if result is not None and item.slot < SHOWN_SEEDS and item.label in wanted:
            made.setdefault(result.image_source, {})[result.shift, item.label, item.slot] = (item, result)
    drawn = (
        _grid(name, classes, summary, made, album, run) for name, classes in shown.items() if name != BASE
    )
    return [grid for grid in drawn if grid is not None]


def _grid(
    shift: str,
    classes: Sequence[str],
    summary: ShiftBenchmarkSummary,
    made: Mapping[str, _Made],
    album: Album,
    run: str,
) -> Grid | None:
    image_sources: Sequence[ImageSource] = summary.config.request.image_sources
    with_it = (name for name in image_sources if any(key[0] == shift for key in made.get(name, {})))
    image_source = next(with_it, None)
    if image_source is None:
        return None
    there = made[image_source]

    def thumbnail(condition: str, class_name: str, slot: int) -> Thumbnail | None:
        found = there.get((condition, class_name, slot))
        return None if found is None else _thumbnail(*found, summary, album, run)

    rows = {
        name: [
            Cell(thumbnail(BASE, name, slot), thumbnail(shift, name, slot))
            for slot in range(min(SHOWN_SEEDS, summary.config.request.n))
        ]
        for name in classes
    }
    return Grid(shift, image_source, rows, image_source in GENERATED)


def _thumbnail(
    item: ImageItem, result: ImageResult, summary: ShiftBenchmarkSummary, album: Album, run: str
) -> Thumbnail:
    # Images that are not generated are photographs and must not be marked as synthetic.
    image = (
        album.generated(result.image, run=run, item=item.id, source_type=GENERATED_SOURCE_TYPE)
        if result.image_source in GENERATED
        else album.original(result.image)
    )
    return Thumbnail(image, filter_verdict(result, item.label, summary), result.prompt or "", item.id)
