"""Records of kept images in addition to their predictions: features and likelihoods, for the summary.

They never decide the outcome of an item, unless the run's budget has no room for them. The ports retry a
failed call as usual; a call that still fails is logged and left out, and the item is done without it. So a
language model that is down costs a summary its perplexity, but no run its images.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.contract.features import FeatureVector, WordFeatures
from counterpose_core.contract.perturber import LikelihoodsRequest, TextLikelihood, WordSpan
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedTextsRequest
from counterpose_core.errors import BudgetSpent, CounterposeError, LeaseLost
from counterpose_core.images.clip_metrics import unit
from counterpose_gateway.methods.stress_test.regions import is_confirming
from counterpose_gateway.methods.stress_test.screen.edits import Draft
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, repeated, together

CLIP, LANGUAGE_MODEL = "clip", "language-model"
"""Keys in a result's ``models`` for the embedder of image and words, and for the caption's language model."""

T = TypeVar("T")
V = TypeVar("V")

_logger = logging.getLogger(__name__)


async def record_features(calls: Calls, subject: Subject, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with everything that could be measured; each image, word and caption once.

    Drafts of a confirmation stay as they are: no figure of the summary needs their features.
    """
    if all(is_confirming(draft.item) for draft in drafts):
        return list(drafts)
    scorer, results, source = calls.services.scorer, [draft.result for draft in drafts], subject.source

    async def see(images: list[str]) -> list[Outcome[Embedding]]:
        return await calls.ask("scorer", scorer.embed_images, EmbedImagesRequest(images=images), model=CLIP)

    async def read(texts: list[str]) -> list[Outcome[Embedding]]:
        return await calls.ask("scorer", scorer.embed_texts, EmbedTextsRequest(texts=texts), model=CLIP)

    async def weigh(texts: list[str]) -> list[Outcome[TextLikelihood]]:
        likelihoods, request = calls.services.perturber.likelihoods, LikelihoodsRequest(texts=texts)
        return await calls.ask("perturber", likelihoods, request, model=LANGUAGE_MODEL, is_costed=False)

    refs = [source.source_image, *(result.image for result in results)]
    phrases = [phrase for result in results for phrase in (_text(result.removed), _text(result.added))]
    seen, known = dict[str, FeatureVector](), dict[str, FeatureVector]()
    if subject.config.has_clip:
        seen, known = await together([_measured(see, refs, _vector), _measured(read, phrases, _vector)])
    weighed = await _measured(weigh, map(_caption, results), lambda likelihood: likelihood)
    return [Draft(draft.item, _recorded(draft, source, seen, known, weighed)) for draft in drafts]


async def _measured(
    call: Callable[[list[str]], Awaitable[list[Outcome[T]]]], names: Iterable[str], read: Callable[[T], V]
) -> dict[str, V]:
    """Ask about each name once; names without an answer are left out."""
    asked = list(dict.fromkeys(name for name in names if name))
    values: dict[str, V] = {}
    for start in range(0, len(asked), MAX_BATCH):
        chunk = asked[start : start + MAX_BATCH]
        try:
            outcomes = await repeated(partial(call, chunk))
        except (BudgetSpent, LeaseLost):
            # A run without room goes on with a larger budget, and then measures this, too.
            raise
        except CounterposeError as error:
            _logger.warning("%d records are left out: %s", len(chunk), error.detail)
            continue
        for name, outcome in zip(chunk, outcomes, strict=True):
            try:
                values[name] = read(outcome.unwrap())
            except CounterposeError as error:
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
    images: Mapping[str, FeatureVector],
    phrases: Mapping[str, FeatureVector],
    likelihoods: Mapping[str, TextLikelihood],
) -> ItemResult:
    result = draft.result
    update: dict[str, Any] = {
        "image_features": images.get(result.image),
        "likelihood": likelihoods.get(_caption(result)),
    }
    words = WordFeatures(removed=phrases.get(_text(result.removed)), added=phrases.get(_text(result.added)))
    if words != WordFeatures():
        update["word_features"] = words
    if draft.item.kind == "reconstruction":
        update["source_features"] = images.get(source.source_image)
    return result.model_copy(update=update)
