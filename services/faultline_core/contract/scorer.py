"""Bodies of the scorer: embeddings, the metrics of an edit, masked words."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, Outcome, RequestBody, ResponseBody, Text
from faultline_core.types import BlobRef, Cost, Seed

TextEncoder = Literal["clip", "sentence"]


class EmbedImagesRequest(RequestBody):
    """``POST /v1/embed-images``."""

    images: list[BlobRef] = Field(min_length=1, max_length=MAX_BATCH)


class EmbedTextsRequest(RequestBody):
    """``POST /v1/embed-texts``: by CLIP's text tower or by the sentence encoder."""

    texts: list[Text] = Field(min_length=1, max_length=256)
    encoder: TextEncoder = "clip"


class Embedding(ResponseBody):
    """A unit vector."""

    vector: list[float]


class EmbedResponse(ResponseBody):
    """One outcome for each input, in order."""

    outcomes: list[Outcome[Embedding]]
    model: ModelIdentity
    cost: Cost = Cost()


class ScoreItem(RequestBody):
    """An edit to score: both pictures, both captions, the words removed and added."""

    original: BlobRef
    edited: BlobRef
    caption: Text
    edited_caption: Text
    removed: str = ""
    added: str = ""


class ScoreRequest(RequestBody):
    """``POST /v1/score``."""

    items: list[ScoreItem] = Field(min_length=1, max_length=MAX_BATCH)


class EditScores(ResponseBody):
    """The metrics of one edit, cosines in [-1, 1].

    ``direction`` is cos(E(x') - E(x), E(t') - E(t)) (LANCE, eq. 2): larger means that the picture
    changed the way the caption did. ``image_image`` compares both pictures, ``text_original`` the
    original with its caption, ``text_edited`` the edit with the edited caption; ``words_added`` and
    ``words_removed`` compare the edit with the changed words alone, None where there are none.
    ``text_edited_source`` and ``text_original_edit`` are the two crossed similarities.
    """

    direction: float
    image_image: float
    text_original: float
    text_edited: float
    text_edited_source: float
    text_original_edit: float
    words_added: float | None = None
    words_removed: float | None = None


class ScoreResponse(ResponseBody):
    """One outcome for each edit, in order."""

    outcomes: list[Outcome[EditScores]]
    model: ModelIdentity
    cost: Cost = Cost()


class FillMaskItem(RequestBody):
    """Replace the word at ``position`` (of whitespace-separated words) by one a masked LM proposes."""

    text: Text
    position: int = Field(ge=0)
    n: int = Field(default=1, ge=1, le=16)
    seed: Seed


class FillMaskRequest(RequestBody):
    """``POST /v1/fill-mask``."""

    items: list[FillMaskItem] = Field(min_length=1, max_length=MAX_BATCH)


class FilledMask(ResponseBody):
    """Distinct replacement words, never the original one, with their probabilities."""

    words: list[str]
    probabilities: list[float]


class FillMaskResponse(ResponseBody):
    """One outcome for each item, in order."""

    outcomes: list[Outcome[FilledMask]]
    model: ModelIdentity
