"""The interfaces of the engines for the Serve classes: synchronous methods on the contract's bodies.

Each method returns one outcome per item; its exceptions are from `counterpose_core.errors` and concern the
whole call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from counterpose_core.contract import (
    captioner,
    classifiers,
    editor,
    judges,
    perturber,
    preservation,
    scorer,
    tokens,
)
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest


class Engine(Protocol):
    """Every engine has the name and digest of its weights."""

    @property
    def identity(self) -> ModelIdentity: ...


class Captioner(Engine, Protocol):
    """Writes captions and returns likelihoods of given texts."""

    def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse: ...

    def log_likelihood(self, request: captioner.LogLikelihoodRequest) -> captioner.LogLikelihoodResponse: ...


class Perturber(Engine, Protocol):
    """Proposes caption edits and returns likelihoods of texts."""

    def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse: ...

    def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse: ...


class Editor(Engine, Protocol):
    """Edits and generates images and learns tokens; polls ``cancelled`` between diffusion steps."""

    @property
    def capabilities(self) -> Capabilities: ...

    def rows(self) -> tuple[int, int]: ...

    def reconstruct(
        self, request: editor.ReconstructRequest, *, cancelled: Callable[[], bool]
    ) -> editor.ReconstructResponse: ...

    def edit(self, request: editor.EditRequest, *, cancelled: Callable[[], bool]) -> editor.EditResponse: ...

    def generate(
        self, request: editor.GenerateRequest, *, cancelled: Callable[[], bool]
    ) -> editor.GenerateResponse: ...

    def learn_tokens(
        self, request: tokens.LearnTokensRequest, *, cancelled: Callable[[], bool]
    ) -> tokens.LearnTokensResponse: ...


class Scorer(Engine, Protocol):
    """Measures images and texts."""

    def score(self, request: scorer.ScoreRequest) -> scorer.ScoreResponse: ...

    def embed_images(self, request: scorer.EmbedImagesRequest) -> scorer.EmbedResponse: ...

    def embed_texts(self, request: scorer.EmbedTextsRequest) -> scorer.EmbedResponse: ...

    def fill_mask(self, request: scorer.FillMaskRequest) -> scorer.FillMaskResponse: ...

    def preservation(
        self, request: preservation.PreservationRequest
    ) -> preservation.PreservationResponse: ...


class Segmenter(Engine, Protocol):
    """Outlines the objects of images."""

    def segment(self, request: scorer.SegmentRequest) -> scorer.SegmentResponse: ...


class Judge(Engine, Protocol):
    """Says of edits whether they are right."""

    def judge(self, request: judges.JudgeRequest) -> judges.JudgeResponse: ...


class Classifiers(Engine, Protocol):
    """The models under test."""

    def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse: ...

    def is_loaded(self, spec: str, function: str | None) -> bool: ...

    def order_effect(self, request: OrderEffectRequest) -> OrderEffect: ...

    def list_classifiers(self) -> classifiers.ClassifierList: ...

    def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription: ...
