"""The ports that methods call: five async Protocols, one for each service.

Each method takes and returns the service's own HTTP bodies. A port guarantees:

- a response has exactly one outcome for each item of its request, in the request's order. The port counts
  them and raises `BadBackendOutput` otherwise, so no caller counts again and `zip(..., strict=True)` holds;
- a bad item does not affect the others: its own outcome is a problem;
- a call that fails as a whole raises only errors of `counterpose_core.errors`.

    async def first_caption(captioner: Captioner, image: str) -> str:
        response = await captioner.caption(CaptionRequest(items=[CaptionItem(image=image)]))
        return response.outcomes[0].unwrap().text
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from counterpose_core.contract.captioner import (
    CaptionRequest,
    CaptionResponse,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.contract.editor import (
    EditRequest,
    EditResponse,
    GenerateRequest,
    GenerateResponse,
    ReconstructRequest,
    ReconstructResponse,
)
from counterpose_core.contract.judges import JudgeRequest, JudgeResponse
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.contract.perturber import (
    LikelihoodsRequest,
    LikelihoodsResponse,
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.contract.preservation import PreservationRequest, PreservationResponse
from counterpose_core.contract.scorer import (
    EmbedImagesRequest,
    EmbedResponse,
    EmbedTextsRequest,
    FillMaskRequest,
    FillMaskResponse,
    ScoreRequest,
    ScoreResponse,
    SegmentRequest,
    SegmentResponse,
)
from counterpose_core.contract.tokens import LearnTokensRequest, LearnTokensResponse


class Captioner(Protocol):
    """Writes captions and returns the likelihood of given ones."""

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Caption each image."""

    async def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        """Return the likelihood of each text given its image."""


class Perturber(Protocol):
    """Proposes edits of captions without filtering any, and returns the likelihood of texts."""

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Propose edits of each caption."""

    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        """Return the likelihood of each text under the language model alone."""


class Editor(Protocol):
    """Makes images (reconstructions, edits, text-to-image), and learns tokens for them."""

    async def reconstruct(self, request: ReconstructRequest) -> ReconstructResponse:
        """Invert and reconstruct each image."""

    async def edit(self, request: EditRequest) -> EditResponse:
        """Edit each image at every value of the sweep."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Make one image for each prompt and seed."""

    async def learn_tokens(self, request: LearnTokensRequest) -> LearnTokensResponse:
        """Learn each class's token one link further."""


class Scorer(Protocol):
    """Measures images and texts."""

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """Measure each edit."""

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Embed each image."""

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        """Embed each text."""

    async def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        """Replace one word of each text."""

    async def preservation(self, request: PreservationRequest) -> PreservationResponse:
        """Measure what each edit changed beside what was asked for."""

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Have one of the suite's judges judge each edit."""

    async def segment(self, request: SegmentRequest) -> SegmentResponse:
        """Outline the object of each image, in a suite with a segmenter."""


class Classifiers(Protocol):
    """The models under test."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe a classifier, whether listed or not."""

    async def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """Measure what the order of the labels does to a model that chats."""

    async def list_classifiers(self) -> ClassifierList:
        """Name the classifiers that can be tested."""


@dataclass(frozen=True)
class Services:
    """The five ports a method is given."""

    captioner: Captioner
    perturber: Perturber
    editor: Editor
    scorer: Scorer
    classifiers: Classifiers
