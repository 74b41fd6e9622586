"""The report of a run of operations: what hurts with its images, every level in one table, what is open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from counterpose_core.commands import (
    apply_command,
    operation_proof_command,
    operation_steps,
    repeat_command,
    repeat_notes,
)
from counterpose_core.contract.recipes import IDENTITY, Recipe
from counterpose_core.contract.runs import Item, Run, TransformedImage
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import OperationFigure, OperationLevel, TransformSummary
from counterpose_gateway.images.png import OPERATION_SOURCE_TYPE
from counterpose_gateway.methods.stress_test.report.baseline import baseline_rows
from counterpose_gateway.methods.stress_test.report.downloads import downloads
from counterpose_gateway.methods.stress_test.report.severity import severity_plots, severity_rows
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album, Inline

SHOWN = 8
"""Operations of each state that are shown with images."""

PHOTOGRAPHS = 3
"""Photographs that are shown of each of them."""

HURTING = ("breaks", "suspected")
"""States of a loss that is shown."""

SHADES = (0.05, 0.15, 0.3)
"""Losses from which a cell is shaded more darkly."""


@dataclass(frozen=True)
class Shown:
    """A photograph at its working size and with an operation, with the answers to both."""

    item: str
    label: str
    before: Inline | None
    after: Inline | None
    said_before: str
    said_after: str


def render_operations(
    summary: StressTestSummary, run: Run, items: Iterable[Item], read_image: Callable[[str], bytes]
) -> str:
    """Write the report of operations alone; ``read_image`` returns an image's bytes by its digest."""
    album = Album(read_image)
    config = StressTestConfig.model_validate(summary.config)
    context = {
        **operations_context(summary, run, items, album),
        "summary": summary,
        "run": run,
        "baseline": baseline_rows(summary.baseline, album),
        "command": repeat_command(config.request, config.operation_proof),
        "command_notes": repeat_notes(config.request),
        "downloads": downloads(summary, ()),
        "config": json.dumps(summary.config, indent=2, sort_keys=True, ensure_ascii=False),
    }
    return TEMPLATES.get_template("stress_test/operations.html.j2").render(context, images=album.images)


def operations_context(
    summary: StressTestSummary, run: Run, items: Iterable[Item], album: Album
) -> dict[str, Any]:
    """Return what the sections on operations show; ``items`` are those of operations.

    The images of operations are made here from their recipes, as they were made to be classified.
    """
    told, plan = summary.transforms, StressTestConfig.model_validate(summary.config).transforms
    figures = [] if told is None else told.figures
    breaking = [each for each in figures if each.state in HURTING]
    # Where nothing hurts, the images of the worst that is open: what the run is about can be seen.
    doubtful = [each for each in figures if each.state == "cannot-tell" and each.headline.flipped]
    pictured = breaking or doubtful[:1]
    wanted = {source: None for figure in pictured for source in figure.headline.flipped[:PHOTOGRAPHS]}
    # All items of a run are read only where some are shown.
    read = items if wanted else ()
    found: dict[str, list[Item]] = {}
    for item in read:
        if item.item_group in wanted and item.result is not None:
            found.setdefault(item.item_group, []).append(item)
    return {
        "told": told,
        "breaking": [
            (each, each.headline, _photographs(each, found, album, run.id)) for each in breaking[:SHOWN]
        ],
        "more": breaking[SHOWN:],
        "doubtful": [
            (each, each.headline, _photographs(each, found, album, run.id))
            for each in pictured
            if not breaking
        ],
        "open": [each for each in figures if each.state == "cannot-tell"],
        "held": [each for each in figures if each.state == "holds"],
        "levels": sorted({level.level for each in figures for level in each.levels}),
        "operation_rows": [
            (each, {level.level: (level, shade(level)) for level in each.levels}) for each in figures
        ],
        **_severity_context(told),
        "cut": any(level.placebo for each in figures for level in each.levels),
        "scaled": plan is not None and plan.scaled,
        "next_steps": operation_steps(summary),
        "prove_command": partial(operation_proof_command, summary),
        "apply_command": partial(apply_command, run.id),
    }


def _severity_context(told: TransformSummary | None) -> dict[str, Any]:
    severity = None if told is None else told.severity
    if told is None or severity is None:
        return {"severity": None}
    return {
        "severity": severity,
        "severity_plots": severity_plots(told),
        "severity_rows": severity_rows(severity),
        "severity_levels": sorted({level.level for each in severity.figures for level in each.levels}),
    }


def shade(level: OperationLevel) -> int:
    """Return how darkly a level's cell is shaded, from 0."""
    return sum((level.loss.estimate or 0.0) >= least for least in SHADES)


def _photographs(
    figure: OperationFigure, items: Mapping[str, Sequence[Item]], album: Album, run: str
) -> list[Shown]:
    level = figure.headline
    return [
        shown
        for source in level.flipped[:PHOTOGRAPHS]
        if source in items and (shown := _shown(items[source], figure, level.level, album, run)) is not None
    ]


def _shown(
    items: Sequence[Item], figure: OperationFigure, level: int, album: Album, run: str
) -> Shown | None:
    """The photograph with and without the operation; a later stage may have asked more of it."""
    of: dict[tuple[str, int], TransformedImage] = {}
    for each in (image for item in items if item.result is not None for image in item.result.transformed):
        # The answers of the figure's own classifier, where an image was asked about twice.
        if figure.classifier in each.predictions:
            of.setdefault((each.operation, each.level), each)
    item = items[0]
    control, changed = of.get((IDENTITY, 0)), of.get((figure.operation, level))
    if control is None or changed is None:
        return None
    return Shown(
        item=item.id,
        label=item.label,
        before=_image(control, album, run, item.id),
        after=_image(changed, album, run, item.id),
        said_before=_said(control.predictions.get(figure.classifier)),
        said_after=_said(changed.predictions.get(figure.classifier)),
    )


def _image(made: TransformedImage, album: Album, run: str, item: str) -> Inline | None:
    recipe = Recipe.parsed(made.recipe)
    if recipe.operation == IDENTITY:
        return album.original(made.recipe)
    return album.generated(made.recipe, run=run, item=item, source_type=OPERATION_SOURCE_TYPE)


def _said(pair: Scored | None) -> str:
    if pair is None or not pair.shown:
        return "no answer"
    name, p = pair.shown[0]
    return f"{name} {100 * p:.0f} %"
