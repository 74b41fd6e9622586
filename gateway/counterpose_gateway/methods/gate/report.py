"""The report of a gate: the outcome, every cell with its interval, and pairs that only a candidate fails."""

from __future__ import annotations

from collections.abc import Callable

from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.recipes import is_recipe
from counterpose_core.contract.runs import Run
from counterpose_core.gate import LEAST_UNITS
from counterpose_core.tasks import figures_of
from counterpose_gateway.images.png import DIGITAL_SOURCE_TYPE, GENERATED_SOURCE_TYPE, OPERATION_SOURCE_TYPE
from counterpose_gateway.methods.gate.errors import points
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album

_THUMBNAIL = 160


def render(summary: GateSummary, run: Run, read_image: Callable[[str], bytes]) -> str:
    """Write the report; ``read_image`` returns an image's bytes by its reference."""
    album = Album(read_image, longest=_THUMBNAIL)
    edited = summary.config.regression_set.kind == "stress-test"
    source_type = DIGITAL_SOURCE_TYPE if edited else GENERATED_SOURCE_TYPE
    shown = [
        (
            each,
            album.original(each.source)
            if edited
            else album.generated(each.source, run=run.id, item=each.item, source_type=source_type),
            album.generated(
                each.image,
                run=run.id,
                item=each.item,
                source_type=OPERATION_SOURCE_TYPE if is_recipe(each.image) else source_type,
            ),
        )
        for each in summary.examples
    ]
    context = {
        "summary": summary,
        "least_units": LEAST_UNITS,
        "run": run,
        "rule": figures_of(summary.config.task).rule,
        "shown": shown,
        "cells": [(cell, points(cell.regression)) for cell in summary.cells],
    }
    return TEMPLATES.get_template("gate/report.html.j2").render(context, images=album.images)
