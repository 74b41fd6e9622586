"""The report of a survey."""

from __future__ import annotations

from html import escape

from counterpose_gateway.reports.numbers import percent
from fakes.confidence_survey.contract import SurveySummary


def render(summary: SurveySummary) -> str:
    """Write a line a classifier."""
    lines = [
        f"<li>{escape(name)}: {percent(figure.estimate)}</li>" for name, figure in summary.confidences.items()
    ]
    return f"<!doctype html><title>Survey {summary.run_id}</title><ul>{''.join(lines)}</ul>"
