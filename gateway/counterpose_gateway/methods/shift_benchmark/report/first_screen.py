"""What a reader sees first of a benchmark: a headline, image pairs, ranked bars, and models by shift.

Grids of a benchmark's images: one row per class, one column per seed, the base above the shift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.shift_benchmark_summary import (
    EffectSummary,
    ImageSourceSummary,
    ShiftBenchmarkSummary,
    ShiftSummary,
)
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageResult, ImageSource
from counterpose_core.shift_benchmark.shift_filter import LEAST_IMAGES
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.threshold_review import Verdict, filter_verdict
from counterpose_gateway.reports.images import Album, Inline
from counterpose_gateway.reports.numbers import MINUS, decimal
from counterpose_gateway.reports.states import BADGES

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


SHOWN_PAIRS = 8
LEVELS = (0.05, 0.15, 0.30)

Rows = Sequence[tuple[str, ShiftSummary, EffectSummary]]
"""Judged shifts with their effects, the largest impact first."""

_DOUBTFUL = ("test-unfit", "suspected")
"""States of shifts whose loss may be the generator's."""


@dataclass(frozen=True)
class Bar:
    """What a shift costs in points, and the generator ``alone``; widths are per cent of the longest bar."""

    shift: str
    points: str
    width: float
    alone: float
    state: FindingState
    note: str

    @property
    def badge(self) -> str:
        """Its state as icon and word."""
        return BADGES[self.state]


@dataclass(frozen=True)
class StripPair:
    """A base image and the shifted one of the same class and seed."""

    class_name: str
    base: Thumbnail
    shifted: Thumbnail


@dataclass(frozen=True)
class ModelCell:
    """Points of accuracy that a model loses under a shift, and their shade from 0 to 3."""

    points: str
    value: float
    level: int


def counted_images(summary: ShiftBenchmarkSummary) -> str:
    """What images must be to count: where classifiers failed on some, not only kept."""
    return "kept and answered" if summary.unanswered else "kept"


def note_of(shift: ShiftSummary) -> str:
    """What the generator alone does beside a shift, where that decides its state; empty otherwise."""
    match shift.state:
        case "test-unfit":
            return "the generator alone costs more"
        case "suspected" if shift.confounding is None:
            return "no real images tell what the generator alone costs"
        case "suspected":
            return "the generator alone may cost as much"
        # What breaks costs more, and nothing that holds could have come from the generator.
        case _:
            return ""


def ranked(source: ImageSourceSummary) -> list[tuple[str, ShiftSummary, EffectSummary]]:
    """The judged shifts, the largest impact first."""
    rows = [(name, shift, shift.effect) for name, shift in source.shifts.items() if shift.effect is not None]
    return sorted(rows, key=lambda row: -(row[2].impact.estimate or 0.0))


def hardest_shift(summary: ShiftBenchmarkSummary) -> str | None:
    """The shift that costs most by the first source, of those that break, else of those suspected to."""
    for source in list(summary.image_sources.values())[:1]:
        for state in ("breaks", "suspected"):
            for name, shift, _ in ranked(source):
                if shift.state == state:
                    return name
    return None


def headline(summary: ShiftBenchmarkSummary) -> str:
    """The benchmark in one sentence: how many models lose most under which shift."""
    if not summary.image_sources:
        return "This benchmark has no image source."
    source = next(iter(summary.image_sources.values()))
    rows, name = ranked(source), hardest_shift(summary)
    if not rows:
        counted = f"{LEAST_IMAGES} {counted_images(summary)} images"
        return f"No shift could be judged: no class has {counted} with and without one."
    if name is None:
        unfit = sum(shift.state == "test-unfit" for _, shift, _ in rows)
        alone = f"; the generator alone costs more than {unfit} of them" if unfit else ""
        return f"None of {len(rows)} shifts is shown to cost the models anything{alone}."
    shift, effect = next((shift, effect) for found, shift, effect in rows if found == name)
    points = f"{decimal(100 * (effect.impact.estimate or 0.0), 0)} points of accuracy"
    if shift.state == "suspected":
        return f"Suspected: “{name}” costs {points}, but {note_of(shift)}."
    return _shown(name, effect, points, rows, summary.config.request.classifiers)


def _shown(name: str, effect: EffectSummary, points: str, rows: Rows, asked: Sequence[str]) -> str:
    """What a shift that breaks costs; it costs most only if no larger loss may be the generator's."""
    if any(shift.state in _DOUBTFUL for _, shift, _ in rows[: [row[0] for row in rows].index(name)]):
        return f"“{name}” is shown to cost the models {points}."
    others = [row for row in rows if row[1].state not in _DOUBTFUL]
    number, of = sum(_worst(model, others) == name for model in effect.models), len(effect.models)
    if of == 1:
        who = "The model" if len(asked) == 1 else next(iter(effect.models))
        return f"{who} loses most on “{name}”: {points}."
    if 2 * number <= of:
        return f"“{name}” costs most: {points}, averaged over {effect.n_compared} models."
    who = f"All {of}" if number == of else f"{number} of {of}"
    return f"{who} models lose most on “{name}”: {points}."


def _worst(model: str, rows: Rows) -> str | None:
    """The shift that a model loses most under; None if it loses nothing."""
    drops = [
        (effect.models[model].drop.estimate or 0.0, name)
        for name, _, effect in rows
        if model in effect.models
    ]
    most, name = max(drops)
    return name if most > 0.0 else None


def bars(summary: ShiftBenchmarkSummary) -> list[Bar]:
    """The shifts of the first source by what they cost, and what its generator alone costs."""
    source = next(iter(summary.image_sources.values()), None)
    if source is None:
        return []
    rows = ranked(source)
    alone = [abs(shift.gap.gap.estimate or 0.0) if shift.gap else 0.0 for _, shift, _ in rows]
    costs = [effect.impact.estimate or 0.0 for _, _, effect in rows]
    longest = max((abs(cost) for cost in (*costs, *alone)), default=0.0) or 1.0
    return [
        Bar(
            shift=name,
            points=_points(-cost),
            width=round(100 * max(cost, 0.0) / longest, 1),
            alone=round(100 * without / longest, 1),
            state=shift.state,
            note=note_of(shift),
        )
        for (name, shift, _), cost, without in zip(rows, costs, alone, strict=True)
    ]


def strip(summary: ShiftBenchmarkSummary, grids: Sequence[Grid]) -> tuple[str, list[StripPair]]:
    """The shift shown first and its pairs: those of which the filter dropped neither image."""
    hardest = hardest_shift(summary)
    ordered = sorted(grids, key=lambda grid: grid.shift != hardest)
    for grid in ordered:
        by_seed = [
            StripPair(name, cell.base, cell.shifted)
            for cells in zip(*grid.rows.values(), strict=False)
            for name, cell in zip(grid.rows, cells, strict=True)
            if cell.base and cell.shifted and {cell.base.verdict, cell.shifted.verdict} == {"kept"}
        ]
        if by_seed:
            return grid.shift, by_seed[:SHOWN_PAIRS]
    return "", []


def model_cells(summary: ShiftBenchmarkSummary) -> dict[str, Mapping[str, ModelCell | None]]:
    """Model → shift → points lost by the first source; the model that loses most first."""
    source = next(iter(summary.image_sources.values()), None)
    rows = ranked(source) if source else []
    table = {
        model: {name: _cell(effect, model) for name, _, effect in rows}
        for model in summary.config.request.classifiers
    }
    order = sorted(table, key=lambda model: min((c.value for c in table[model].values() if c), default=1.0))
    return {model: table[model] for model in order}


def _cell(effect: EffectSummary, model: str) -> ModelCell | None:
    drop = effect.models[model].drop.estimate if model in effect.models else None
    if drop is None:
        return None
    return ModelCell(_points(-drop), -drop, sum(drop >= level for level in LEVELS))


def _points(change: float) -> str:
    number = round(100 * change)
    return f"{number:+d}".replace("-", MINUS) if number else "0"
