"""Bodies of the captioner: captions of images and the log-likelihood of given texts."""

from typing import Annotated

from pydantic import Field

from counterpose_core.contract.base import MAX_BATCH, CostedBatchResponse, RequestBody, ResponseBody, Text
from counterpose_core.types import BlobRef


class CaptionItem(RequestBody):
    """One image to caption."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    label: str | None = Field(default=None, max_length=200)
    """Class of the image, on which the caption is conditioned; null for an unconditional caption."""
    prefix: Text | None = None
    """Words that the caption goes on from, and begins with; null for the suite's, which may name the
    label."""


class CaptionRequest(RequestBody):
    """``POST /v1/caption``: images to caption."""

    items: list[CaptionItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The images to caption."""


class Caption(ResponseBody):
    """The caption of one image."""

    text: str
    """The caption."""
    log_likelihood: float
    """Log-likelihood of the caption given the image, summed over tokens, in nats."""
    tokens: int
    """Number of tokens in the caption."""
    shortened: bool = False
    """Whether sentences were removed so that the caption fits the editor's text encoder."""


class CaptionResponse(CostedBatchResponse[Caption]):
    """Answer to `CaptionRequest`."""


class LogLikelihoodItem(RequestBody):
    """An image and a text to score against it."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    text: Text
    """The text whose likelihood given the image is computed."""
    prefix: Annotated[str, Field(max_length=4000)] = ""
    """Words before the text, which are given and not weighed."""


class LogLikelihoodRequest(RequestBody):
    """``POST /v1/log-likelihood``: captions to score against their images."""

    items: list[LogLikelihoodItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The pairs of image and text to score."""


class LogLikelihood(ResponseBody):
    """How likely a text is given its image."""

    total: float
    """Log-likelihood of the text, summed over its tokens, in nats."""
    tokens: int
    """Number of tokens in the text."""


class LogLikelihoodResponse(CostedBatchResponse[LogLikelihood]):
    """Answer to `LogLikelihoodRequest`."""
