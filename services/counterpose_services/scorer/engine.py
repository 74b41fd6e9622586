"""The scorer: embeddings of images and texts, the metrics of an edit, masked words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from counterpose_core.blobs import BlobStore, digest
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.preservation import (
    Preservation,
    PreservationItem,
    PreservationRequest,
    PreservationResponse,
)
from counterpose_core.contract.scorer import (
    EditScores,
    Embedding,
    EmbedImagesRequest,
    EmbedResponse,
    EmbedTextsRequest,
    FillMaskRequest,
    FillMaskResponse,
    ScoreItem,
    ScoreRequest,
    ScoreResponse,
    TextEncoder,
)
from counterpose_core.errors import BadBackendOutput, NumericalFailure, UnknownModel
from counterpose_core.images.clip_metrics import cosine, directional_similarity, unit
from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from counterpose_core.images.masks import editable, middle
from counterpose_core.preservation.record import recorded
from counterpose_core.suite import ScorerSuite
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.models.cached_forward import Arrays, PassResult
from counterpose_services.models.clip_encoder import ClipEncoder
from counterpose_services.models.weights import clip_folder, weights_folder
from counterpose_services.scorer.masked_words import MaskedWords
from counterpose_services.scorer.sentence_encoder import SentenceEncoder

Vector = npt.NDArray[np.float64]
Vectors: TypeAlias = "dict[str, Outcome[Arrays]]"
_Pass = Callable[[Sequence[str]], PassResult]
_Model = TypeVar("_Model")
_Pair = tuple[PreservationItem, Pixels, Pixels, Mask | None]


class ScorerEngine:
    """Measures images and texts; each distinct image and text is embedded once and then cached."""

    def __init__(
        self,
        clip: ClipEncoder | None,
        sentence: SentenceEncoder | None,
        masked: MaskedWords | None,
        *,
        name: str,
        store: BlobStore,
        batch: int,
    ) -> None:
        self._masked_words, self._store, self._batch = masked, store, batch
        revisions = " ".join(
            "none" if model is None else model.revision for model in (clip, sentence, masked)
        )
        self.identity = ModelIdentity(id=name, revision=digest(revisions.encode()))
        self._image_pass: _Pass | None = None if clip is None else clip.image_pass(store, batch)
        self._texts: dict[TextEncoder, _Pass] = {}
        if clip is not None:
            self._texts["clip"] = clip.text_pass(store, batch)
        if sentence is not None:
            self._texts["sentence"] = sentence.text_pass(store, batch)

    @property
    def _images(self) -> _Pass:
        return _there(self._image_pass, "CLIP")

    @property
    def _masked(self) -> MaskedWords:
        return _there(self._masked_words, "masked language model")

    @classmethod
    def load(cls, suite: ScorerSuite, root: Path, store: BlobStore, *, device: str = "cpu") -> ScorerEngine:
        """Load those of the three models that the suite has from folders under ``root``.

        Args:
            suite: names the folders.
            root: the folder of all models.
            store: where images are read and embeddings are cached.
            device: the device of all three, such as ``cuda:0``.

        Raises:
            UnknownModel: one of the folders is missing.
            ModelFormatRefused: weights are not safetensors.
        """
        clip, sentence, masked = suite.clip, suite.sentence, suite.masked_lm
        published = suite.published
        return cls(
            ClipEncoder(clip_folder(root, clip, published), device=device) if clip else None,
            SentenceEncoder(weights_folder(root, sentence, published), device=device) if sentence else None,
            MaskedWords(weights_folder(root, masked, published), device=device) if masked else None,
            name=suite.clip or "preservation",
            store=store,
            batch=suite.batch,
        )

    def score(self, request: ScoreRequest) -> ScoreResponse:
        """Measure each edit (LANCE, section 3.2)."""
        started = time.monotonic()
        items = request.items
        refs = [ref for item in items for ref in (item.original, item.edited)]
        texts = [text for item in items for text in _texts_of(item)]
        seen, read = self._images(refs), _there(self._texts.get("clip"), "CLIP")(texts)
        images = dict(zip(refs, seen.outcomes, strict=True))
        words = dict(zip(texts, read.outcomes, strict=True))
        outcomes = settle(
            items,
            prepare=lambda item: _measure(item, images, words),
            run=list[EditScores],
            finish=lambda _, scores: scores,
            batch=len(items),
        )
        cost = Cost(clip_passes=seen.computed + read.computed, seconds=time.monotonic() - started)
        return ScoreResponse(outcomes=outcomes, model=self.identity, cost=cost)

    def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Embed each image by CLIP's image tower."""
        return self._embedded(self._images, request.images)

    def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        """Embed each text by CLIP's text tower or the sentence encoder."""
        encoder = _there(self._texts.get(request.encoder), f"text encoder {request.encoder!r}")
        return self._embedded(encoder, request.texts)

    def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        """Replace one word of each text by words from a masked language model (LANCE-R)."""
        masked = self._masked
        outcomes = settle(
            request.items, prepare=masked.read, run=masked.odds, finish=masked.draw, batch=self._batch
        )
        return FillMaskResponse(outcomes=outcomes, model=self.identity)

    def preservation(self, request: PreservationRequest) -> PreservationResponse:
        """Measure what each edit changed beside what was asked for, and draw its difference map."""
        started = time.monotonic()
        outcomes = settle(
            request.items,
            prepare=self._pair,
            run=list[_Pair],
            finish=self._preserved,
            batch=len(request.items),
        )
        cost = Cost(seconds=time.monotonic() - started)
        return PreservationResponse(outcomes=outcomes, model=self.identity, cost=cost)

    def _pair(self, item: PreservationItem) -> _Pair:
        original, edited = (decode_image(self._store.get(ref)) for ref in (item.original, item.edited))
        source = original if item.unchanged is None else decode_image(self._store.get(item.unchanged))
        if item.region is None:
            return item, source, edited, None
        height, width = original.shape[:2]
        region = editable(self._store.get(item.region.mask), item.region.edits, (height, width))
        return item, source, edited, middle(region, (source.shape[0], source.shape[1]))

    def _preserved(self, pair: _Pair, _: _Pair) -> Preservation:
        item, source, edited, region = pair
        found, drawn = recorded(source, edited, control=item.control, region=region)
        if drawn is None:
            return found
        ref = self._store.put(encode_png(drawn))
        self._store.note_made([ref], of=item.original)
        return found.model_copy(update={"map": ref})

    def _embedded(self, passes: _Pass, items: Sequence[str]) -> EmbedResponse:
        started = time.monotonic()
        found = passes(items)
        outcomes = settle(
            found.outcomes,
            prepare=_unit,
            run=list[Vector],
            finish=lambda _, vector: Embedding(vector=vector.tolist()),
            batch=len(items),
        )
        cost = Cost(clip_passes=found.computed, seconds=time.monotonic() - started)
        return EmbedResponse(outcomes=outcomes, model=self.identity, cost=cost)


def _there(model: _Model | None, name: str) -> _Model:
    if model is None:
        raise UnknownModel(f"the suite has no {name}")
    return model


def _texts_of(item: ScoreItem) -> list[str]:
    texts = (item.caption, item.edited_caption, item.removed, item.added)
    return [text for text in texts if text]


def _unit(outcome: Outcome[Arrays]) -> Vector:
    try:
        return unit(outcome.unwrap()["vector"])
    # A vector of length zero is a fault of the model, not of our arithmetic.
    except NumericalFailure as error:
        raise BadBackendOutput(error.detail) from error


def _measure(item: ScoreItem, images: Vectors, texts: Vectors) -> EditScores:
    """Compare the images and the captions of an edit with each other.

    Raises:
        CounterposeError: one of them could not be embedded.
    """
    original, edited = _unit(images[item.original]), _unit(images[item.edited])
    caption, edited_caption = _unit(texts[item.caption]), _unit(texts[item.edited_caption])

    def to_edit(words: str) -> float | None:
        return float(cosine(edited, _unit(texts[words]))) if words else None

    return EditScores(
        direction=float(directional_similarity(original, edited, caption, edited_caption)),
        image_image=float(cosine(original, edited)),
        text_original=float(cosine(original, caption)),
        text_edited=float(cosine(edited, edited_caption)),
        text_edited_source=float(cosine(edited, caption)),
        text_original_edit=float(cosine(original, edited_caption)),
        words_added=to_edit(item.added),
        words_removed=to_edit(item.removed),
    )
