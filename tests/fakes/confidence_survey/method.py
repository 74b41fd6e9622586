"""The entry points of the made-up method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from counterpose_core.contract.runs import Run
from counterpose_core.types import RunKind
from counterpose_gateway.exports import Card, Record
from counterpose_gateway.exports.method import ExportChoice
from counterpose_gateway.runs.context import RecordedRuns
from fakes.confidence_survey.contract import SurveyItem, SurveySummary
from fakes.confidence_survey.export import survey_card, survey_records
from fakes.confidence_survey.plan import plan
from fakes.confidence_survey.process import process
from fakes.confidence_survey.report import render
from fakes.confidence_survey.summary import summarize


class ConfidenceSurvey:
    """The method of confidence surveys."""

    kind: RunKind = "confidence-survey"  # type: ignore[assignment]  # the test adds it to the closed list
    item = SurveyItem

    plan = staticmethod(plan)
    process = staticmethod(process)

    def revision(self, run_id: str, context: RecordedRuns) -> None:
        """Name nothing."""

    def summarize(
        self, run: Run, items: Iterable[SurveyItem], view: None, context: RecordedRuns
    ) -> SurveySummary:
        """Sum up confidences."""
        return summarize(run, items)

    def report(
        self,
        summary: SurveySummary,
        run: Run,
        items: Iterable[SurveyItem],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report."""
        return render(summary)

    def export(
        self, summary: SurveySummary, items: Iterable[SurveyItem], choice: ExportChoice
    ) -> tuple[Card, Iterator[Record]]:
        """Return the images."""
        return survey_card(summary), survey_records(summary, items)


CONFIDENCE_SURVEY = ConfidenceSurvey()
