"""CLIP features of the images and texts of an attempt or a dataset; a bad image affects no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    NumericalFailure,
    RequestError,
    StorageError,
)
from counterpose_core.images.clip_metrics import Vectors, unit
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.services.ports import Scorer

CALLS_AT_ONCE = 4
"""Enough that the scorer always has a next batch, few enough that other runs get their turn."""


async def embed_images(calls: Calls, images: Sequence[BlobRef]) -> list[Outcome[Embedding]]:
    """Ask for each image's features, in as many calls as it takes.

    Raises:
        BackendError: a call failed as a whole.
    """
    outcomes: list[Outcome[Embedding]] = []
    for start in range(0, len(images), MAX_BATCH):
        request = EmbedImagesRequest(images=list(images[start : start + MAX_BATCH]))
        outcomes += await calls.ask("scorer", calls.services.scorer.embed_images, request)
    return outcomes


async def embed_texts(calls: Calls, texts: Sequence[str]) -> list[Outcome[Embedding]]:
    """Ask for each text's features, in one call.

    Raises:
        BackendError: the call failed as a whole.
    """
    request = EmbedTextsRequest(texts=list(texts), encoder="clip")
    return await calls.ask("scorer", calls.services.scorer.embed_texts, request)


def unit_vector(outcome: Outcome[Embedding]) -> Vectors:
    """Return the features (d,) of one outcome at unit length.

    Raises:
        CounterposeError: the error that its problem names.
        BadBackendOutput: they are zero or not finite.
    """
    try:
        return unit(outcome.unwrap().vector)
    except NumericalFailure as error:
        # NaN, infinity or zeros come from the service, not from our arithmetic: the call may be retried.
        raise BadBackendOutput(f"CLIP's embedding of an image or text: {error.detail}") from error


def require_one_space(*vectors: Vectors) -> None:
    """Refuse features that cannot be compared.

    Raises:
        BadBackendOutput: they differ in size.
    """
    if len({vector.shape[-1] for vector in vectors}) > 1:
        raise BadBackendOutput("CLIP's embeddings of images and texts have different sizes")


@dataclass(frozen=True)
class EmbeddedImages:
    """Features of each readable image, the reasons for the others, and the cost."""

    features: dict[BlobRef, NDArray[np.float32]]
    unreadable: dict[BlobRef, str]
    cost: Cost


async def embed_dataset(images: Sequence[BlobRef], checkpoint: str | None, scorer: Scorer) -> EmbeddedImages:
    """Embed images by the CLIP ``checkpoint`` (``id@revision``), or all by the one that answers first.

    Raises:
        BackendError: the scorer is down, or other weights answer than ``checkpoint``.
    """
    features: dict[BlobRef, NDArray[np.float32]] = {}
    unreadable: dict[BlobRef, str] = {}
    cost = Cost()
    batches = iter([images[start : start + MAX_BATCH] for start in range(0, len(images), MAX_BATCH)])
    while wave := list(islice(batches, CALLS_AT_ONCE)):
        answers = await together(
            scorer.embed_images(EmbedImagesRequest(images=list(batch))) for batch in wave
        )
        for batch, answer in zip(wave, answers, strict=True):
            checkpoint = _require_checkpoint(answer, checkpoint)
            cost += answer.cost
            for image, outcome in zip(batch, answer.outcomes, strict=True):
                if (why := _unreadable(outcome)) is not None:
                    unreadable[image] = why
                else:
                    # Python's own numbers would take eight times the memory.
                    features[image] = np.asarray(outcome.unwrap().vector, dtype=np.float32)
    return EmbeddedImages(features, unreadable, cost)


def _require_checkpoint(answer: EmbedResponse, checkpoint: str | None) -> str:
    answered = f"{answer.model.id}@{answer.model.revision}"
    if checkpoint not in (None, answered):
        # The weights changed between the calls: an index of mixed features would return nonsense.
        raise BackendUnavailable(f"{checkpoint!r} embedded the query and {answered!r} the images")
    return answered


def _unreadable(outcome: Outcome[Embedding]) -> str | None:
    """Return why an image is left out; ``unwrap`` raises errors that the image did not cause."""
    if outcome.problem is None:
        return None
    error = outcome.problem.error()
    # An index is kept, so an image that is only temporarily unavailable must not be left out of it.
    own = isinstance(error, RequestError | StorageError | NumericalFailure) and not error.retryable
    return error.code if own else None
