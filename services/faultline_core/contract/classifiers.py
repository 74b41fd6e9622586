"""Bodies of the classifiers: the models under test, each seen as a function from picture to probabilities."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, Outcome, RequestBody, ResponseBody
from faultline_core.types import BlobRef, ClassifierSpec, Cost


class ClassifyRequest(RequestBody):
    """``POST /v1/classify``: predictions over the dataset's ``classes``, in their order."""

    classifier: ClassifierSpec
    images: list[BlobRef] = Field(min_length=1, max_length=MAX_BATCH)
    classes: list[str] = Field(min_length=1, max_length=10_000)
    features: bool = False


class Prediction(ResponseBody):
    """Probabilities over the request's classes; they sum to the mass the head puts on these classes.

    ``top`` holds the indices of the five most probable classes, best first.
    """

    probabilities: list[float]
    top: list[int]
    features: list[float] | None = None


class ClassifyResponse(ResponseBody):
    """One outcome for each picture, in order."""

    outcomes: list[Outcome[Prediction]]
    model: ModelIdentity
    cost: Cost = Cost()


class DescribeRequest(RequestBody):
    """``POST /v1/describe``: what is known of a classifier, listed or not: a `ClassifierDescription`."""

    classifier: ClassifierSpec


ClassifierTrait = Literal["architecture", "parameters", "resolution", "training"]
"""The fields of a `ClassifierDescription` that classifiers are grouped by."""


class ClassifierDescription(ResponseBody):
    """A classifier that can be tested; ``classes`` is its class map where it is known.

    Models are grouped by what their files say without being loaded, None or empty where nobody told: the
    ``architecture``, the number of ``parameters``, the ``resolution`` in pixels (the shorter side of what the
    network takes), and ``training``, on what and how: timm's tag of the weights ("a1_in1k").
    """

    name: str
    spec: str
    architecture: str = ""
    classes: list[str] | None = None
    description: str = ""
    parameters: int | None = None
    resolution: int | None = None
    training: str = ""

    def trait(self, name: ClassifierTrait) -> str | int | None:
        """The trait of this name, None where nobody told it."""
        found: str | int | None = getattr(self, name)
        return found or None


class ClassifierList(ResponseBody):
    """``GET /v1/classifiers``."""

    classifiers: list[ClassifierDescription]
