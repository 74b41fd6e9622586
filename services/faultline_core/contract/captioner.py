"""Bodies of the captioner: captions of images and the log-likelihood of given texts."""

from pydantic import Field

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, Outcome, RequestBody, ResponseBody, Text
from faultline_core.types import BlobRef, Cost


class CaptionItem(RequestBody):
    """One image to caption."""

    image: BlobRef = Field(description="SHA-256 of the image in the store.")
    label: str | None = Field(
        default=None,
        max_length=200,
        description="Class of the image, on which the caption is conditioned; null for a caption "
        "without one.",
    )


class CaptionRequest(RequestBody):
    """``POST /v1/caption``: images to caption."""

    items: list[CaptionItem] = Field(min_length=1, max_length=MAX_BATCH, description="The images to caption.")


class Caption(ResponseBody):
    """The caption of one image."""

    text: str = Field(description="The caption.")
    log_likelihood: float = Field(
        description="Log-likelihood of the caption given the image, summed over tokens, in nats."
    )
    tokens: int = Field(description="Number of tokens in the caption.")
    shortened: bool = Field(
        default=False,
        description="Whether sentences were removed so that the caption fits the editor's text encoder.",
    )


class CaptionResponse(ResponseBody):
    """Answer to `CaptionRequest`."""

    outcomes: list[Outcome[Caption]] = Field(
        description="One outcome for each image, in the order of the request."
    )
    model: ModelIdentity = Field(description="The weights that answered.")
    cost: Cost = Field(default=Cost(), description="What the whole call took.")


class LogLikelihoodItem(RequestBody):
    """An image and a text to score against it."""

    image: BlobRef = Field(description="SHA-256 of the image in the store.")
    text: Text = Field(description="The text whose likelihood given the image is computed.")


class LogLikelihoodRequest(RequestBody):
    """``POST /v1/log-likelihood``: captions to score against their images."""

    items: list[LogLikelihoodItem] = Field(
        min_length=1, max_length=MAX_BATCH, description="The pairs of image and text to score."
    )


class LogLikelihood(ResponseBody):
    """How likely a text is given its image."""

    total: float = Field(description="Log-likelihood of the text, summed over its tokens, in nats.")
    tokens: int = Field(description="Number of tokens in the text.")


class LogLikelihoodResponse(ResponseBody):
    """Answer to `LogLikelihoodRequest`."""

    outcomes: list[Outcome[LogLikelihood]] = Field(
        description="One outcome for each pair, in the order of the request."
    )
    model: ModelIdentity = Field(description="The weights that answered.")
