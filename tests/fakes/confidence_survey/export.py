"""The export of a survey: the surveyed images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.records import Record
from counterpose_gateway.runs.method import ExportChoice
from fakes.confidence_survey.contract import SurveyItem, SurveySummary


def export(
    summary: SurveySummary, items: Iterable[SurveyItem], choice: ExportChoice
) -> tuple[Card, Iterator[Record]]:
    """Return the images."""
    return survey_card(summary), survey_records(summary, items)


def survey_records(summary: SurveySummary, items: Iterable[SurveyItem]) -> Iterator[Record]:
    """Yield a record for each image that was classified."""
    for item in items:
        if item.result is not None:
            # The field's name is the exports' own.
            fields = {"image": item.result.image, "class_name": item.label, "run": summary.run_id}
            yield Record.model_validate(
                fields | {"shift": "none", "image_source": "dataset", "origin": "photograph"}
            )


def survey_card(summary: SurveySummary) -> Card:
    """Say what the set is."""
    return Card(
        title="Surveyed images",
        what="Images as they are.",
        made=f"Run {summary.run_id}.",
        figures=summary.confidences,
    )
