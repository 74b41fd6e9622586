"""What is recorded of kept pictures beyond their predictions: features and likelihoods, for the summary.

None of it decides about an item. A call that may pass is repeated as any other, by the ports, within
their patience; what fails then, or fails for good, is logged and left out, and the item is done
without it. So a down language model costs a summary its perplexity and no run its pictures.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from faultline_core.clip_metrics import unit
from faultline_core.contract.base import MAX_BATCH, Outcome
from faultline_core.contract.features import FeatureVector, WordFeatures
from faultline_core.contract.perturber import LikelihoodsRequest, TextLikelihood, WordSpan
from faultline_core.contract.runs import ItemResult
from faultline_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedTextsRequest
from faultline_core.errors import FaultlineError, LeaseLost
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, together
from faultline_gateway.workflows.pictures import Draft

CLIP, LANGUAGE_MODEL = "clip", "language-model"
"""Under which ``models`` of a result names what embedded picture and words, and what weighed the caption."""

T = TypeVar("T")
V = TypeVar("V")

_logger = logging.getLogger(__name__)


async def add_records(
    attempt: Attempt, source: LeasedItem, drafts: Sequence[Draft], services: Services
) -> list[Draft]:
    """Return the drafts with what could be measured: pictures, words, captions once each."""
    if not drafts:
        return []
    results = [draft.result for draft in drafts]

    async def see(images: list[str]) -> Mapping[str, Outcome[Embedding]]:
        response = await attempt.call(
            "scorer", services.scorer.embed_images, EmbedImagesRequest(images=images)
        )
        attempt.share(response.cost)
        return dict(zip(images, attempt.outcomes(CLIP, response, len(images)), strict=True))

    async def read(texts: list[str]) -> Mapping[str, Outcome[Embedding]]:
        response = await attempt.call("scorer", services.scorer.embed_texts, EmbedTextsRequest(texts=texts))
        attempt.share(response.cost)
        return dict(zip(texts, attempt.outcomes(CLIP, response, len(texts)), strict=True))

    async def weigh(texts: list[str]) -> Mapping[str, Outcome[TextLikelihood]]:
        request = LikelihoodsRequest(texts=texts)
        response = await attempt.call("perturber", services.perturber.likelihoods, request)
        return dict(zip(texts, attempt.outcomes(LANGUAGE_MODEL, response, len(texts)), strict=True))

    pictures = [source.source_image, *(result.image for result in results)]
    phrases = [phrase for result in results for phrase in (_text(result.removed), _text(result.added))]
    seen, known = await together([_measured(see, pictures, _vector), _measured(read, phrases, _vector)])
    weighed = await _measured(weigh, map(_caption, results), lambda likelihood: likelihood)
    return [Draft(draft.item, _recorded(draft, source, seen, known, weighed)) for draft in drafts]


async def _measured(
    call: Callable[[list[str]], Awaitable[Mapping[str, Outcome[T]]]],
    names: Iterable[str],
    read: Callable[[T], V],
) -> dict[str, V]:
    """Ask about each name once; those that have no answer are left out."""
    asked = list(dict.fromkeys(name for name in names if name))
    values: dict[str, V] = {}
    for start in range(0, len(asked), MAX_BATCH):
        chunk = asked[start : start + MAX_BATCH]
        try:
            outcomes = await call(chunk)
        except LeaseLost:
            raise
        except FaultlineError as error:
            _logger.warning("%d records are left out: %s", len(chunk), error.detail)
            continue
        for name, outcome in outcomes.items():
            try:
                values[name] = read(outcome.unwrap())
            except FaultlineError as error:
                _logger.warning("the record of %r is left out: %s", name, error.detail)
    return values


def _vector(embedding: Embedding) -> FeatureVector:
    return FeatureVector.of(unit(embedding.vector).tolist())


def _text(spans: Sequence[WordSpan]) -> str:
    return " ".join(word for span in spans for word in span.words)


def _caption(result: ItemResult) -> str:
    return result.edited_caption or result.caption


def _recorded(
    draft: Draft,
    source: LeasedItem,
    pictures: Mapping[str, FeatureVector],
    phrases: Mapping[str, FeatureVector],
    likelihoods: Mapping[str, TextLikelihood],
) -> ItemResult:
    result = draft.result
    update: dict[str, Any] = {
        "image_features": pictures.get(result.image),
        "likelihood": likelihoods.get(_caption(result)),
    }
    words = WordFeatures(removed=phrases.get(_text(result.removed)), added=phrases.get(_text(result.added)))
    if words != WordFeatures():
        update["word_features"] = words
    if draft.item.kind == "reconstruction":
        update["source_features"] = pictures.get(source.source_image)
    return result.model_copy(update=update)
