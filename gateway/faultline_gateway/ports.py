"""What the workflows call: five async Protocols, one for each service.

Each method takes and returns the service's own HTTP bodies, with one outcome an item: a bad item
fails alone, and a whole call raises only what `faultline_core.errors` names.

    async def first_caption(captioner: Captioner, image: str) -> str:
        response = await captioner.caption(CaptionRequest(items=[CaptionItem(image=image)]))
        return response.outcomes[0].unwrap().text
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from faultline_core.contract.captioner import (
    CaptionRequest,
    CaptionResponse,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from faultline_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from faultline_core.contract.editor import (
    EditRequest,
    EditResponse,
    GenerateRequest,
    GenerateResponse,
    ReconstructRequest,
    ReconstructResponse,
)
from faultline_core.contract.perturber import (
    LikelihoodsRequest,
    LikelihoodsResponse,
    PerturbRequest,
    PerturbResponse,
)
from faultline_core.contract.scorer import (
    EmbedImagesRequest,
    EmbedResponse,
    EmbedTextsRequest,
    FillMaskRequest,
    FillMaskResponse,
    ScoreRequest,
    ScoreResponse,
)
from faultline_core.contract.tokens import LearnTokensRequest, LearnTokensResponse


class Captioner(Protocol):
    """Writes captions and weighs given ones."""

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Caption each picture."""
        ...

    async def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        """Weigh each text given its picture."""
        ...


class Perturber(Protocol):
    """Proposes caption edits, of which it filters none, and weighs texts."""

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Propose edits of each caption."""
        ...

    async def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        """Weigh each text under the language model alone."""
        ...


class Editor(Protocol):
    """Makes pictures: reconstructions, edits, text-to-image; learns tokens for it."""

    async def reconstruct(self, request: ReconstructRequest) -> ReconstructResponse:
        """Invert each picture and bring it back."""
        ...

    async def edit(self, request: EditRequest) -> EditResponse:
        """Edit each picture at every value of the sweep."""
        ...

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Make one picture a prompt and seed."""
        ...

    async def learn_tokens(self, request: LearnTokensRequest) -> LearnTokensResponse:
        """Take the learning of each class's token a link further."""
        ...


class Scorer(Protocol):
    """Measures pictures and texts."""

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """Measure each edit."""
        ...

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Embed each picture."""
        ...

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        """Embed each text."""
        ...

    async def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        """Replace one word of each text."""
        ...


class Classifiers(Protocol):
    """The models under test."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each picture."""
        ...

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Tell what is known of a classifier, be it listed or not."""
        ...

    async def list_classifiers(self) -> ClassifierList:
        """Name the classifiers that can be tested."""
        ...


@dataclass(frozen=True)
class Services:
    """The five ports a workflow is given."""

    captioner: Captioner
    perturber: Perturber
    editor: Editor
    scorer: Scorer
    classifiers: Classifiers
