"""The report of a survey."""

from __future__ import annotations

from html import escape

from counterpose_core.contract.runs import Run
from counterpose_gateway.reports.numbers import percent
from counterpose_gateway.runs.method import Headline, ReadImage
from fakes.confidence_survey.contract import SurveySummary


def headline(summary: SurveySummary) -> Headline:
    """Say of how many classifiers there are figures."""
    return Headline(f"{len(summary.confidences)} classifiers were asked.")


def render(summary: SurveySummary, run: Run, read_image: ReadImage) -> str:
    """Write a line a classifier."""
    lines = [
        f"<li>{escape(name)}: {percent(figure.estimate)}</li>" for name, figure in summary.confidences.items()
    ]
    return f"<!doctype html><title>Survey {summary.run_id}</title><ul>{''.join(lines)}</ul>"
