"""The report of a shift benchmark: one HTML file that needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmark_summary import (
    ConditionSummary,
    ShiftBenchmarkSummary,
    ShiftSummary,
    SourceSummary,
)
from faultline_core.contract.shift_benchmarks import PictureItem
from faultline_core.shift_filter import LEAST_PICTURES
from faultline_core.shifts import BASE
from faultline_gateway.reports import numbers
from faultline_gateway.reports.benchmark_grid import THUMBNAIL, grids
from faultline_gateway.reports.benchmark_plots import (
    AccuracyLine,
    accuracy_lines,
    impact_map,
    passed_plot,
    similarity_plot,
)
from faultline_gateway.reports.environment import TEMPLATES
from faultline_gateway.reports.pictures import Album
from faultline_gateway.reports.scatter import Scatter
from faultline_gateway.workflows.some_names import some

SHOWN_MODELS = 6
"""Columns of the tables of single classes; the summary holds every model."""

_ENOUGH_SURE = 0.05


@dataclass(frozen=True)
class ShiftRow:
    """One shift by one source in the table: its figures, and its thin classes in words."""

    source: str
    name: str
    found: ShiftSummary
    thin: str
    is_sure: bool


@dataclass(frozen=True)
class DroppedRow:
    """What became of the pictures of a condition by one source."""

    source: str
    name: str
    found: ConditionSummary


@dataclass(frozen=True)
class ShownSource:
    """One source's plots."""

    name: str
    found: SourceSummary
    lines: list[AccuracyLine]
    impacts: Scatter | None


def render_benchmark(
    summary: ShiftBenchmarkSummary,
    run: Run,
    items: Iterable[PictureItem],
    picture: Callable[[str], bytes],
) -> str:
    """Write the report; ``picture`` returns the bytes of a picture by its reference.

    It makes no request when opened, and pictures that are gone leave a gap instead of an error.
    """
    album = Album(picture, longest=THUMBNAIL)
    context = {
        "summary": summary,
        "run": run,
        "verdict": verdict(summary),
        "rows": shift_rows(summary),
        "dropped": dropped_rows(summary),
        "sources": [_shown(name, source, summary) for name, source in summary.sources.items()],
        "similarities": similarity_plot(summary),
        "passed": passed_plot(summary),
        "grids": grids(summary, items, album, run=run.id),
        "class_models": _most_affected(summary),
        "least": LEAST_PICTURES,
        "base": BASE,
        "config": json.dumps(
            summary.config.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False
        ),
    }
    return TEMPLATES.get_template("shift_benchmark.html.j2").render(context)


def verdict(summary: ShiftBenchmarkSummary) -> list[str]:
    """What the first source found, in sentences: the hardest shift, the others, what is in doubt."""
    if not summary.sources:
        return ["There is no source of pictures."]
    name, source = next(iter(summary.sources.items()))
    rows = [(shift, found) for shift, found in source.shifts.items() if found.effect is not None]
    if not rows:
        return [f"No shift could be judged: no class has {LEAST_PICTURES} pictures left with and without it."]
    sure = [(shift, found) for shift, found in rows if _is_sure(found)]
    said = (
        [_hardest(sure)]
        if sure
        else [f"None of {len(rows)} shifts is shown to cost the classifiers anything."]
    )
    others = f"{len(sure)} of {len(rows)} judged shifts are shown to change accuracy"
    said.append(f"{others} (pictures by {name}, two-sided, after Holm's correction).")
    confounded = [shift for shift, found in rows if found.confounded]
    if confounded:
        said.append(f"The generator alone costs more than these shifts: {some(confounded)}.")
    unjudged = [shift for shift, found in source.shifts.items() if found.effect is None]
    if unjudged:
        said.append(f"Too few pictures were left to judge {some(unjudged)}.")
    return said


def shift_rows(summary: ShiftBenchmarkSummary) -> list[ShiftRow]:
    """Every shift by every source, those of one shift together."""
    names = dict.fromkeys(name for source in summary.sources.values() for name in source.shifts)
    return [
        ShiftRow(name, shift, found, some(found.thin), _is_sure(found))
        for shift in names
        for name, source in summary.sources.items()
        if (found := source.shifts.get(shift)) is not None
    ]


def dropped_rows(summary: ShiftBenchmarkSummary) -> list[DroppedRow]:
    """What became of the pictures, the base of each source first."""
    return [
        DroppedRow(name, condition, found)
        for name, source in summary.sources.items()
        for condition, found in {BASE: source.base, **source.shifts}.items()
    ]


def _shown(name: str, source: SourceSummary, summary: ShiftBenchmarkSummary) -> ShownSource:
    return ShownSource(name, source, accuracy_lines(source, summary.models), impact_map(source))


def _is_sure(found: ShiftSummary) -> bool:
    return found.effect is not None and found.effect.p_adjusted < _ENOUGH_SURE


def _hardest(rows: Sequence[tuple[str, ShiftSummary]]) -> str:
    effects = [(shift, found.effect) for shift, found in rows if found.effect is not None]
    shift, effect = max(effects, key=lambda row: row[1].impact.estimate or 0.0)
    fall, low, high = (
        numbers.decimal(_points(share))
        for share in (effect.impact.estimate, effect.impact.low, effect.impact.high)
    )
    return (
        f"“{shift}” costs most: accuracy falls by {fall} points ({low} to {high}, n={effect.impact.n} "
        f"pictures, {len(effect.models)} models, p {numbers.p_value(effect.p_adjusted)})."
    )


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _most_affected(summary: ShiftBenchmarkSummary) -> list[str]:
    """The models with the largest drop under any shift of the first source."""
    worst: dict[str, float] = dict.fromkeys(summary.config.request.classifiers, 0.0)
    for source in list(summary.sources.values())[:1]:
        for found in source.shifts.values():
            for name, model in found.effect.models.items() if found.effect else ():
                worst[name] = max(worst.get(name, 0.0), model.drop.estimate or 0.0)
    return sorted(worst, key=lambda name: (-worst[name], name))[:SHOWN_MODELS]
