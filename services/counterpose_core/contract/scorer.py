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

    images: list[BlobRef] = Field(min_length=1, max_length=MAX_BATCH)
    """SHA-256 of each image to embed."""


class EmbedTextsRequest(RequestBody):
    """``POST /v1/embed-texts``: texts to embed."""

    texts: list[Text] = Field(min_length=1, max_length=256)
    """The texts to embed."""
    encoder: TextEncoder = "clip"
    """CLIP's text tower (`clip`) or the sentence encoder (`sentence`)."""


class Embedding(ResponseBody):
    """One embedding."""

    vector: list[float]
    """Components of a unit vector."""


class EmbedResponse(CostedBatchResponse[Embedding]):
    """Answer to `EmbedImagesRequest` and `EmbedTextsRequest`."""


class ScoreItem(RequestBody):
    """An edit to score."""

    original: BlobRef
    """SHA-256 of the image before the edit."""
    edited: BlobRef
    """SHA-256 of the image after the edit."""
    caption: Text
    """Caption of the original image."""
    edited_caption: Text
    """Caption that the edited image follows."""
    removed: str = ""
    """The words removed from the caption; empty if none were."""
    added: str = ""
    """The words added to the caption; empty if none were."""


class ScoreRequest(RequestBody):
    """``POST /v1/score``: edits to score by CLIP."""

    items: list[ScoreItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The edits to score."""


class EditScores(ResponseBody):
    """CLIP's metrics of one edit, all cosines in [-1, 1]."""

    direction: float
    """Cosine between the change of the image and the change of the caption (LANCE, eq. 2); high if both
    changed in the same way."""
    image_image: float
    """Cosine of the original image with the edited one."""
    text_original: float
    """Cosine of the original image with its caption."""
    text_edited: float
    """Cosine of the edited image with the edited caption."""
    text_edited_source: float
    """Cosine of the edited image with the original caption."""
    text_original_edit: float
    """Cosine of the original image with the edited caption."""
    words_added: float | None = None
    """Cosine of the edited image with the added words alone, or null if none were added."""
    words_removed: float | None = None
    """Cosine of the edited image with the removed words alone, or null if none were removed."""


class ScoreResponse(CostedBatchResponse[EditScores]):
    """Answer to `ScoreRequest`."""


class FillMaskItem(RequestBody):
    """A text and the position of a word for which a masked language model proposes replacements."""

    text: Text
    """The text, whose words are separated by white space."""
    position: int = Field(ge=0)
    """Index of the word to replace, from 0."""
    n: int = Field(default=1, ge=1, le=16)
    """Maximum number of words to return."""
    seed: Seed
    """Seed of the sampling."""


class FillMaskRequest(RequestBody):
    """``POST /v1/fill-mask``: texts in which a masked language model proposes words."""

    items: list[FillMaskItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The texts to fill."""


class FilledMask(ResponseBody):
    """Proposed replacements of one word."""

    words: list[str]
    """Distinct words, never the original one."""
    probabilities: list[float]
    """Probability of each word under the masked language model, in [0, 1]."""


class FillMaskResponse(BatchResponse[FilledMask]):
    """Answer to `FillMaskRequest`."""


class SegmentItem(RequestBody):
    """An image in which an object is sought."""

    image: BlobRef
    """SHA-256 of the image."""
    label: Text
    """The class of the object."""
    exact: BlobRef | None = None
    """SHA-256 of a mask that is known to be right, to hold the segmenter's against; null for none."""


class SegmentRequest(RequestBody):
    """``POST /v1/segment``: images whose objects a segmenter is to outline."""

    items: list[SegmentItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The images, each with the class of its object."""


class Segment(ResponseBody):
    """Where a segmenter sees the object of an image."""

    mask: BlobRef | None
    """SHA-256 of the mask, white where the object is, or null where nothing tells object and background."""
    share: float
    """Share of the image's pixels inside, in [0, 1]."""
    why: str = ""
    """Why there is no mask; empty where there is one."""
    overlap: float | None = None
    """Intersection over union with the mask that is known to be right, in [0, 1]; null without one."""


class SegmentResponse(CostedBatchResponse[Segment]):
    """Answer to `SegmentRequest`."""
