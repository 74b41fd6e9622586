"""Generated pictures that look objectionable are filtered before anything is concluded from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from faultline_core.contract.base import MAX_BATCH
from faultline_core.contract.runs import Provenance
from faultline_core.objectionable import nearest_concept, prompts
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import OpenItems, together
from faultline_gateway.workflows.clip_features import (
    embed_pictures,
    embed_texts,
    require_one_space,
    vector_of,
)

OBJECTIONABLE = "objectionable"
"""The reason of a filtered item."""


class _Draft(Protocol):
    @property
    def item(self) -> LeasedItem: ...
    @property
    def image(self) -> str: ...
    @property
    def result(self) -> Provenance: ...


D = TypeVar("D", bound=_Draft)


async def drop_objectionable(
    attempt: OpenItems, drafts: Sequence[D], threshold: float | None, services: Services
) -> list[D]:
    """Filter the pictures that reach the run's threshold for any concept; without a threshold, none.

    It fails with its scorer: a picture that could not be looked at is not kept.
    """
    if threshold is None:
        return list(drafts)
    kept: list[D] = []
    chunks = [drafts[start : start + MAX_BATCH] for start in range(0, len(drafts), MAX_BATCH)]
    for chunk in chunks:
        async with attempt.blaming([draft.item for draft in chunk]):
            kept += await _judge(attempt, chunk, threshold, services)
    return kept


async def _judge(attempt: OpenItems, drafts: Sequence[D], threshold: float, services: Services) -> list[D]:
    images = [draft.image for draft in drafts]
    pictures, concepts = await together(
        [embed_pictures(attempt, images, services), embed_texts(attempt, prompts(), services)]
    )
    vectors = [vector_of(outcome) for outcome in concepts]
    kept: list[D] = []
    for draft, outcome in zip(drafts, pictures, strict=True):
        async with attempt.blaming([draft.item]):
            picture = vector_of(outcome)
            require_one_space(picture, *vectors)
            concept, nearness = nearest_concept(picture, vectors)
            if nearness < threshold:
                kept.append(draft)
                continue
            detail = f"looks like {concept}: {nearness:.2f}, and {threshold:g} is too much"
            await attempt.filtered(draft.item, OBJECTIONABLE, detail, draft.result)
    return kept
