"""Bodies of the made-up ``/v1/confidence-surveys``."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from counterpose_core.contract.base import RequestBody, ResponseBody, told_apart_by
from counterpose_core.contract.runs import PredictionPair, Provenance, RunItem
from counterpose_core.types import BlobRef, Estimate


class SurveyCreate(RequestBody):
    """``POST /v1/confidence-surveys``: which dataset, and which classifiers."""

    dataset: str
    classifiers: list[str]
    seed: int = 0


class SurveyConfig(ResponseBody):
    """What a survey was resolved to."""

    request: SurveyCreate
    classes: list[str]


class SurveyResult(Provenance):
    """What classifiers said about one image."""

    image: BlobRef
    predictions: dict[str, PredictionPair] = {}


class SurveyItem(RunItem[SurveyResult]):
    """One image of a survey."""


class SurveySummary(ResponseBody):
    """The mean of p(true class) by classifier."""

    model_config = ConfigDict(json_schema_extra=told_apart_by("kind"))

    kind: Literal["confidence-survey"] = "confidence-survey"
    run_id: str
    confidences: dict[str, Estimate]
