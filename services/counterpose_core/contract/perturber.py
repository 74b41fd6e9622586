"""Bodies of the perturber: caption edits with their exact word differences, and likelihoods of texts."""

from pydantic import Field

from counterpose_core.contract.base import (
    MAX_BATCH,
    CostedBatchResponse,
    ModelIdentity,
    RequestBody,
    ResponseBody,
    Text,
)
from counterpose_core.types import PerturbationType, Seed


class WordSpan(ResponseBody):
    """A run of consecutive words of a caption."""

    words: list[str]
    """The words, in order."""
    start: int = Field(ge=0)
    """Index of the first word in its caption, from 0."""


class CaptionEdit(ResponseBody):
    """One proposed edit of a caption."""

    edited_caption: str
    """The caption after the edit."""
    removed: list[WordSpan]
    """Words removed, with their positions in the original caption."""
    added: list[WordSpan]
    """Words added, with their positions in the edited caption."""


class PerturbItem(RequestBody):
    """One caption to perturb."""

    caption: Text
    """The caption to edit."""
    perturbation_type: PerturbationType
    """Which factor to change, or `placebo` to change the wording only."""
    n: int = Field(ge=1, le=16)
    """Maximum number of edits to return."""
    seed: Seed
    """Seed of the sampling; equal seeds give equal edits."""


class PerturbRequest(RequestBody):
    """``POST /v1/perturb``: captions to edit."""

    items: list[PerturbItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The captions to perturb."""


class Perturbations(ResponseBody):
    """The edits of one caption."""

    edits: list[CaptionEdit]
    """Distinct usable edits, in the order they were drawn."""
    dropped: dict[str, int] = {}
    """Number of draws dropped, by reason."""


class PerturbResponse(CostedBatchResponse[Perturbations]):
    """Answer to `PerturbRequest`."""


class LikelihoodsRequest(RequestBody):
    """``POST /v1/likelihoods``: texts to score under the language model, without an image."""

    texts: list[Text] = Field(min_length=1, max_length=MAX_BATCH)
    """The texts to score."""


class TextLikelihood(ResponseBody):
    """How likely a text is under a language model."""

    nats: float = Field(le=0)
    """Log-likelihood summed over the counted tokens, in nats; the beginning-of-text token is given."""
    tokens: int = Field(ge=1)
    """Number of counted tokens."""


class LikelihoodsResponse(CostedBatchResponse[TextLikelihood]):
    """Answer to `LikelihoodsRequest`."""

    model: ModelIdentity
    """The weights that answered: the base model without its adapter."""
