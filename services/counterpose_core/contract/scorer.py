"""Bodies of the scorer: embeddings, metrics of edits, and words for masked positions."""

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import (
    MAX_BATCH,
    BatchResponse,
    CostedBatchResponse,
    RequestBody,
    ResponseBody,
    Text,
)
from counterpose_core.types import BlobRef, Seed

TextEncoder = Literal["clip", "sentence"]


class EmbedImagesRequest(RequestBody):
    """``POST /v1/embed-images``: images to embed by CLIP."""

    images: list[BlobRef] = Field(
        min_length=1, max_length=MAX_BATCH, description="SHA-256 of each image to embed."
    )


class EmbedTextsRequest(RequestBody):
    """``POST /v1/embed-texts``: texts to embed."""

    texts: list[Text] = Field(min_length=1, max_length=256, description="The texts to embed.")
    encoder: TextEncoder = Field(
        default="clip", description="CLIP's text tower (`clip`) or the sentence encoder (`sentence`)."
    )


class Embedding(ResponseBody):
    """One embedding."""

    vector: list[float] = Field(description="Components of a unit vector.")


class EmbedResponse(CostedBatchResponse[Embedding]):
    """Answer to `EmbedImagesRequest` and `EmbedTextsRequest`."""


class ScoreItem(RequestBody):
    """An edit to score."""

    original: BlobRef = Field(description="SHA-256 of the image before the edit.")
    edited: BlobRef = Field(description="SHA-256 of the image after the edit.")
    caption: Text = Field(description="Caption of the original image.")
    edited_caption: Text = Field(description="Caption that the edited image follows.")
    removed: str = Field(default="", description="The words removed from the caption; empty if none were.")
    added: str = Field(default="", description="The words added to the caption; empty if none were.")


class ScoreRequest(RequestBody):
    """``POST /v1/score``: edits to score by CLIP."""

    items: list[ScoreItem] = Field(min_length=1, max_length=MAX_BATCH, description="The edits to score.")


class EditScores(ResponseBody):
    """CLIP's metrics of one edit, all cosines in [-1, 1]."""

    direction: float = Field(
        description="Cosine between the change of the image and the change of the caption (LANCE, eq. 2); "
        "high if both changed in the same way."
    )
    image_image: float = Field(description="Cosine of the original image with the edited one.")
    text_original: float = Field(description="Cosine of the original image with its caption.")
    text_edited: float = Field(description="Cosine of the edited image with the edited caption.")
    text_edited_source: float = Field(description="Cosine of the edited image with the original caption.")
    text_original_edit: float = Field(description="Cosine of the original image with the edited caption.")
    words_added: float | None = Field(
        default=None,
        description="Cosine of the edited image with the added words alone, or null if none were added.",
    )
    words_removed: float | None = Field(
        default=None,
        description="Cosine of the edited image with the removed words alone, or null if none were removed.",
    )


class ScoreResponse(CostedBatchResponse[EditScores]):
    """Answer to `ScoreRequest`."""


class FillMaskItem(RequestBody):
    """A text and the position of a word for which a masked language model proposes replacements."""

    text: Text = Field(description="The text, whose words are separated by white space.")
    position: int = Field(ge=0, description="Index of the word to replace, from 0.")
    n: int = Field(default=1, ge=1, le=16, description="Maximum number of words to return.")
    seed: Seed = Field(description="Seed of the sampling.")


class FillMaskRequest(RequestBody):
    """``POST /v1/fill-mask``: texts in which a masked language model proposes words."""

    items: list[FillMaskItem] = Field(min_length=1, max_length=MAX_BATCH, description="The texts to fill.")


class FilledMask(ResponseBody):
    """Proposed replacements of one word."""

    words: list[str] = Field(description="Distinct words, never the original one.")
    probabilities: list[float] = Field(
        description="Probability of each word under the masked language model, in [0, 1]."
    )


class FillMaskResponse(BatchResponse[FilledMask]):
    """Answer to `FillMaskRequest`."""
