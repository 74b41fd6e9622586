"""Bodies of the captioner: captions of pictures and the log-likelihood of given texts."""

from __future__ import annotations

from pydantic import Field

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, Outcome, RequestBody, ResponseBody, Text
from faultline_core.types import BlobRef, Cost


class CaptionItem(RequestBody):
    """One picture to caption, with the label its caption is conditioned on."""

    image: BlobRef
    label: str | None = Field(default=None, max_length=200)


class CaptionRequest(RequestBody):
    """``POST /v1/caption``."""

    items: list[CaptionItem] = Field(min_length=1, max_length=MAX_BATCH)


class Caption(ResponseBody):
    """A caption; ``shortened`` says that sentences which did not fit the editor were left off."""

    text: str
    log_likelihood: float
    tokens: int
    shortened: bool = False


class CaptionResponse(ResponseBody):
    """One outcome for each picture, in order."""

    outcomes: list[Outcome[Caption]]
    model: ModelIdentity
    cost: Cost = Cost()


class LogLikelihoodItem(RequestBody):
    """A picture and the text whose likelihood given it is wanted."""

    image: BlobRef
    text: Text


class LogLikelihoodRequest(RequestBody):
    """``POST /v1/log-likelihood``."""

    items: list[LogLikelihoodItem] = Field(min_length=1, max_length=MAX_BATCH)


class LogLikelihood(ResponseBody):
    """Sum over tokens in nats, and the number of tokens."""

    total: float
    tokens: int


class LogLikelihoodResponse(ResponseBody):
    """One outcome for each pair, in order."""

    outcomes: list[Outcome[LogLikelihood]]
    model: ModelIdentity
