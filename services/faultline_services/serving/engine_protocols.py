"""What the Serve classes ask of their engines: the contract's bodies in and out, synchronously.

Each method gives one outcome an item; what it raises is from `faultline_core.errors` and concerns the
whole call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from faultline_core.contract import captioner, classifiers, editor, perturber, scorer, tokens
from faultline_core.contract.base import ModelIdentity


class Engine(Protocol):
    """What every engine has: the name and digest of the weights that answer."""

    @property
    def identity(self) -> ModelIdentity: ...


class Captioner(Engine, Protocol):
    """Writes captions and weighs given texts."""

    def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse: ...

    def log_likelihood(self, request: captioner.LogLikelihoodRequest) -> captioner.LogLikelihoodResponse: ...


class Perturber(Engine, Protocol):
    """Proposes caption edits and weighs texts."""

    def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse: ...

    def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse: ...


class Editor(Engine, Protocol):
    """Makes images and learns tokens; polls ``cancelled`` between diffusion steps."""

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


class Classifiers(Engine, Protocol):
    """The models under test."""

    def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse: ...

    def list_classifiers(self) -> classifiers.ClassifierList: ...

    def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription: ...
