"""The CLIP features of a folder's pictures, asked for in batches; what cannot be read stays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from faultline_core.contract.base import MAX_BATCH, Outcome
from faultline_core.contract.scorer import Embedding, EmbedImagesRequest, EmbedResponse
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    NumericalFailure,
    RequestError,
    StorageError,
)
from faultline_core.types import BlobRef, Cost
from faultline_gateway.ports import Scorer
from faultline_gateway.workflows.attempt import together

CALLS_AT_ONCE = 4
"""So that the scorer has a next batch at hand, and other runs find a place between."""


@dataclass(frozen=True)
class EmbeddedFolder:
    """Features of each picture that could be read, why the others could not, and what it took."""

    features: dict[BlobRef, NDArray[np.float32]]
    unreadable: dict[BlobRef, str]
    cost: Cost


async def embed_folder(pictures: Sequence[BlobRef], checkpoint: str, scorer: Scorer) -> EmbeddedFolder:
    """Embed pictures by the CLIP ``checkpoint`` (``id@revision``).

    Raises:
        BackendError: the scorer is down, or other weights answer than ``checkpoint``.
    """
    features: dict[BlobRef, NDArray[np.float32]] = {}
    unreadable: dict[BlobRef, str] = {}
    cost = Cost()
    batches = iter([pictures[start : start + MAX_BATCH] for start in range(0, len(pictures), MAX_BATCH)])
    while wave := list(islice(batches, CALLS_AT_ONCE)):
        answers = await together(
            scorer.embed_images(EmbedImagesRequest(images=list(batch))) for batch in wave
        )
        for batch, answer in zip(wave, answers, strict=True):
            _require_answer(answer, len(batch), checkpoint)
            cost += answer.cost
            for picture, outcome in zip(batch, answer.outcomes, strict=True):
                if (why := _unreadable(outcome)) is not None:
                    unreadable[picture] = why
                else:
                    # Python's own numbers would take eight times the room.
                    features[picture] = np.asarray(outcome.unwrap().vector, dtype=np.float32)
    return EmbeddedFolder(features, unreadable, cost)


def _require_answer(answer: EmbedResponse, expected: int, checkpoint: str) -> None:
    if len(answer.outcomes) != expected:
        raise BadBackendOutput(f"{len(answer.outcomes)} outcomes were answered for {expected} pictures")
    found = f"{answer.model.id}@{answer.model.revision}"
    if found != checkpoint:
        # Exchanged under way: half an index of one and half of another would find nonsense.
        raise BackendUnavailable(f"{checkpoint!r} embedded the query and {found!r} the pictures")


def _unreadable(outcome: Outcome[Embedding]) -> str | None:
    """Why a picture is left out; what is no fault of the picture's own is left for ``unwrap`` to raise."""
    if outcome.problem is None:
        return None
    error = outcome.problem.error()
    # An index is kept: a picture that is only hard to get at the moment may not be missing from it for good.
    own = isinstance(error, RequestError | StorageError | NumericalFailure) and not error.retryable
    return error.code if own else None
