"""The report of a shift benchmark: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import (
    ConditionSummary,
    EffectSummary,
    ImageSourceSummary,
    ShiftBenchmarkSummary,
    ShiftSummary,
)
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.shift_benchmark.complete_cases import LEAST_ANSWERED
from counterpose_core.shift_benchmark.shift_filter import LEAST_IMAGES
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.tasks import figures_of
from counterpose_gateway.methods.shift_benchmark.image_source_summary import is_significant
from counterpose_gateway.methods.shift_benchmark.report.first_screen import (
    THUMBNAIL,
    bars,
    counted_images,
    grids,
    hardest_shift,
    headline,
    model_cells,
    ranked,
    strip,
)
from counterpose_gateway.methods.shift_benchmark.report.plots import (
    AccuracyLine,
    accuracy_lines,
    impact_map,
    passed_plot,
    similarity_plot,
)
from counterpose_gateway.reports import numbers
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album
from counterpose_gateway.reports.plots import Scatter
from counterpose_gateway.reports.states import BADGES
from counterpose_gateway.reports.text import truncate_list

SHOWN_MODELS = 6
"""Columns of the tables of single classes; the summary holds every model."""


@dataclass(frozen=True)
class ShiftRow:
    """One table row for a shift and an image source: its figures, and its thin classes in words."""

    image_source: str
    name: str
    found: ShiftSummary
    thin: str
    is_sure: bool
    state: str


@dataclass(frozen=True)
class DroppedRow:
    """The outcomes of one image source under a condition."""

    image_source: str
    name: str
    found: ConditionSummary


@dataclass(frozen=True)
class ShownSource:
    """The plots of one image source."""

    name: str
    found: ImageSourceSummary
    lines: list[AccuracyLine]
    impacts: Scatter | None


def render(
    summary: ShiftBenchmarkSummary, run: Run, items: Iterable[ImageItem], image: Callable[[str], bytes]
) -> str:
    """Write the report; ``image`` returns the bytes of an image by its reference.

    The opened report makes no request, and a missing image leaves a gap instead of an error.
    """
    album = Album(image, longest=THUMBNAIL)
    found = grids(summary, items, album, run=run.id)
    shown_shift, pairs = strip(summary, found)
    context = {
        "summary": summary,
        "run": run,
        "rule": figures_of(summary.config.request.task).rule,
        "headline": headline(summary),
        "shown_shift": shown_shift,
        "pairs": pairs,
        "bars": bars(summary),
        "unjudged": truncate_list(_unjudged(summary)),
        "model_cells": model_cells(summary),
        "verdict": verdict(summary),
        "rows": shift_rows(summary),
        "dropped": dropped_rows(summary),
        "image_sources": [
            _shown(name, image_source, summary) for name, image_source in summary.image_sources.items()
        ],
        "similarities": similarity_plot(summary),
        "passed": passed_plot(summary),
        "grids": found,
        "class_models": _most_affected(summary),
        "least": LEAST_IMAGES,
        "counted": counted_images(summary),
        "least_answered": LEAST_ANSWERED,
        "base": BASE,
    }
    return TEMPLATES.get_template("shift_benchmark/report.html.j2").render(context, images=album.images)


def verdict(summary: ShiftBenchmarkSummary) -> list[str]:
    """Sum up the first image source in sentences: the hardest shift, the others, the doubtful ones."""
    if not summary.image_sources:
        return ["No verdict: this benchmark has no image source."]
    name, image_source = next(iter(summary.image_sources.items()))
    rows = [(shift, figures) for shift, figures in image_source.shifts.items() if figures.effect is not None]
    if not rows:
        return [headline(summary)]
    sure = [(shift, figures) for shift, figures in rows if is_significant(figures.effect)]
    hardest = hardest_shift(summary)
    said = [_fall(*row) for row in ranked(image_source) if row[0] == hardest]
    if not said:
        said = [f"None of {len(rows)} shifts is shown to cost the classifiers anything."]
    others = f"{len(sure)} of {len(rows)} judged shifts are shown to change accuracy"
    said.append(f"{others} (images by {name}, two-sided, after Holm's correction).")
    confounded = [shift for shift, figures in rows if figures.confounded]
    if confounded:
        said.append(f"The generator alone costs more than these shifts: {truncate_list(confounded)}.")
    doubtful = [shift for shift, figures in rows if figures.state == "suspected"]
    if doubtful:
        said.append(
            "These are only suspected, because it cannot be told whether the generator alone costs as much: "
            f"{truncate_list(doubtful)}."
        )
    unjudged = _unjudged(summary)
    if unjudged:
        said.append(f"Too few images were {counted_images(summary)} to judge {truncate_list(unjudged)}.")
    return said


def _unjudged(summary: ShiftBenchmarkSummary) -> list[str]:
    """The shifts of the first image source of which too few images were kept."""
    first = list(summary.image_sources.values())[:1]
    return [shift for source in first for shift, figures in source.shifts.items() if figures.effect is None]


def shift_rows(summary: ShiftBenchmarkSummary) -> list[ShiftRow]:
    """A row for each shift and image source, grouped by shift."""
    names = dict.fromkeys(
        name for image_source in summary.image_sources.values() for name in image_source.shifts
    )
    return [
        ShiftRow(
            name, shift, found, truncate_list(found.thin), is_significant(found.effect), BADGES[found.state]
        )
        for shift in names
        for name, image_source in summary.image_sources.items()
        if (found := image_source.shifts.get(shift)) is not None
    ]


def dropped_rows(summary: ShiftBenchmarkSummary) -> list[DroppedRow]:
    """The outcomes of the images, the base of each image source first."""
    return [
        DroppedRow(name, condition, found)
        for name, image_source in summary.image_sources.items()
        for condition, found in {BASE: image_source.base, **image_source.shifts}.items()
    ]


def _shown(name: str, image_source: ImageSourceSummary, summary: ShiftBenchmarkSummary) -> ShownSource:
    return ShownSource(
        name, image_source, accuracy_lines(image_source, summary.models), impact_map(image_source)
    )


def _fall(shift: str, found: ShiftSummary, effect: EffectSummary) -> str:
    fall, low, high = (
        numbers.decimal(_points(share))
        for share in (effect.impact.estimate, effect.impact.low, effect.impact.high)
    )
    return (
        f"Under “{shift}” accuracy falls by {fall} points ({low} to {high}, n={effect.impact.n} "
        f"images, {effect.n_compared} models, p {numbers.p_value(effect.p_adjusted)})."
    )


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _most_affected(summary: ShiftBenchmarkSummary) -> list[str]:
    """The models with the largest drop under any shift of the first image source."""
    worst: dict[str, float] = dict.fromkeys(summary.config.request.classifiers, 0.0)
    for image_source in list(summary.image_sources.values())[:1]:
        for shift in image_source.shifts.values():
            for name, model in shift.effect.models.items() if shift.effect else ():
                worst[name] = max(worst.get(name, 0.0), model.drop.estimate or 0.0)
    return sorted(worst, key=lambda name: (-worst[name], name))[:SHOWN_MODELS]
