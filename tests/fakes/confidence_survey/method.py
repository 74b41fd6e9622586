"""The made-up method as a value."""

from __future__ import annotations

from counterpose_gateway.runs.method import Method, OfItems, OfSummary
from fakes.confidence_survey.contract import SurveyCreate, SurveyItem, SurveySummary
from fakes.confidence_survey.export import export
from fakes.confidence_survey.plan import plan
from fakes.confidence_survey.process import process
from fakes.confidence_survey.report import headline, render
from fakes.confidence_survey.summary import summarize

CONFIDENCE_SURVEY = Method(
    kind="confidence-survey",  # type: ignore[arg-type]  # the test adds it to the closed list
    needs=("classifiers",),
    create=SurveyCreate,
    item=SurveyItem,
    summary=SurveySummary,
    plan=plan,
    process=process,
    summarize=OfItems(summarize),
    report=OfSummary(render),
    headline=headline,
    export=export,
)
