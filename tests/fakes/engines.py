"""Engines that answer from their requests alone; they stand for the real ones in tests of the Serve shims."""

from __future__ import annotations

import threading

from faultline_core.contract.base import ModelIdentity, Outcome
from faultline_core.contract.captioner import (
    Caption,
    CaptionRequest,
    CaptionResponse,
    LogLikelihood,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from faultline_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    Prediction,
)
from faultline_core.contract.scorer import (
    EditScores,
    Embedding,
    EmbedImagesRequest,
    EmbedResponse,
    EmbedTextsRequest,
    FilledMask,
    FillMaskRequest,
    FillMaskResponse,
    ScoreRequest,
    ScoreResponse,
)
from faultline_core.errors import UnknownModel
from faultline_core.types import Cost

IDENTITY = ModelIdentity(id="fake", revision="0" * 64)


class FakeScorer:
    """Scores by the length of captions; can be held up until ``go_on`` is set."""

    identity = IDENTITY

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.started, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    def score(self, request: ScoreRequest) -> ScoreResponse:
        self.batches.append(len(request.items))
        self.started.set()
        self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        values = [len(item.caption) / 1000 for item in request.items]
        outcomes = [Outcome[EditScores](value=_scores(value)) for value in values]
        return ScoreResponse(outcomes=outcomes, model=IDENTITY, cost=Cost(clip_passes=len(values)))

    def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        return _embedded(request.images)

    def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        return _embedded(request.texts)

    def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        filled = Outcome[FilledMask](value=FilledMask(words=["boat"], probabilities=[0.5]))
        return FillMaskResponse(outcomes=[filled for _ in request.items], model=IDENTITY)


def _scores(value: float) -> EditScores:
    return EditScores(
        direction=value,
        image_image=value,
        text_original=value,
        text_edited=value,
        text_edited_source=value,
        text_original_edit=value,
    )


def _embedded(items: list[str]) -> EmbedResponse:
    outcomes = [Outcome[Embedding](value=Embedding(vector=[float(len(item))])) for item in items]
    return EmbedResponse(outcomes=outcomes, model=IDENTITY)


class FakeCaptioner:
    """Captions by label."""

    identity = IDENTITY

    def caption(self, request: CaptionRequest) -> CaptionResponse:
        captions = [Caption(text=f"a {item.label}", log_likelihood=-1.0, tokens=2) for item in request.items]
        return CaptionResponse(outcomes=[Outcome(value=one) for one in captions], model=IDENTITY)

    def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        weighed = [LogLikelihood(total=-float(len(item.text)), tokens=1) for item in request.items]
        return LogLikelihoodResponse(outcomes=[Outcome(value=one) for one in weighed], model=IDENTITY)


class FakeClassifiers:
    """Knows one classifier that is always sure of the first class."""

    identity = IDENTITY

    def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        if request.classifier != "sure":
            raise UnknownModel(f"no classifier is named {request.classifier!r}")
        sure = Prediction(probabilities=[1.0, *(0.0 for _ in request.classes[1:])], top=[0])
        return ClassifyResponse(outcomes=[Outcome(value=sure) for _ in request.images], model=IDENTITY)

    def list_classifiers(self) -> ClassifierList:
        return ClassifierList(classifiers=[ClassifierDescription(name="sure", spec="sure")])
