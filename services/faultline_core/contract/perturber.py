"""Bodies of the perturber: caption edits with their exact word differences, likelihoods of texts."""

from __future__ import annotations

from pydantic import Field

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, Outcome, RequestBody, ResponseBody, Text
from faultline_core.types import PerturbationType, Seed


class WordSpan(ResponseBody):
    """A run of words and the index of its first word token in the caption it stands in."""

    words: list[str]
    start: int = Field(ge=0)


class CaptionEdit(ResponseBody):
    """One proposed edit: the new caption, what was removed from the old, what was added."""

    edited_caption: str
    removed: list[WordSpan]
    added: list[WordSpan]


class PerturbItem(RequestBody):
    """Ask for ``n`` variants of one caption of one type; equal seeds give equal answers."""

    caption: Text
    perturbation_type: PerturbationType
    n: int = Field(ge=1, le=16)
    seed: Seed


class PerturbRequest(RequestBody):
    """``POST /v1/perturb``."""

    items: list[PerturbItem] = Field(min_length=1, max_length=MAX_BATCH)


class Perturbations(ResponseBody):
    """Distinct usable edits in the order drawn, and how many draws were dropped for which reason."""

    edits: list[CaptionEdit]
    dropped: dict[str, int] = {}


class PerturbResponse(ResponseBody):
    """One outcome for each item, in order."""

    outcomes: list[Outcome[Perturbations]]
    model: ModelIdentity


class LikelihoodsRequest(RequestBody):
    """``POST /v1/likelihoods``: texts to weigh under the language model alone, no picture given."""

    texts: list[Text] = Field(min_length=1, max_length=MAX_BATCH)


class TextLikelihood(ResponseBody):
    """Log-likelihoods of a text's tokens, summed (nats, <= 0), and their number; its beginning is given."""

    nats: float = Field(le=0)
    tokens: int = Field(ge=1)


class LikelihoodsResponse(ResponseBody):
    """One outcome for each text, in order; ``model`` is the base model, whose adapter takes no part."""

    outcomes: list[Outcome[TextLikelihood]]
    model: ModelIdentity
