"""Filter generated images that look objectionable before they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from faultline_core.contract.base import MAX_BATCH
from faultline_core.contract.runs import Provenance
from faultline_core.images.objectionable import nearest_concept, prompts
from faultline_gateway.runs.attempt import OpenItems, together
from faultline_gateway.runs.clip import embed_images, embed_texts, require_one_space, unit_vector
from faultline_gateway.runs.items import LeasedItem
from faultline_gateway.services.ports import Services

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
    """Filter the images that reach the run's threshold for any concept; without a threshold, none.

    It fails if the scorer fails: an image that could not be checked is not kept.
    """
    if threshold is None:
        return list(drafts)
    kept: list[D] = []
    chunks = [drafts[start : start + MAX_BATCH] for start in range(0, len(drafts), MAX_BATCH)]
    for chunk in chunks:
        async with attempt.fail_items_on_error([draft.item for draft in chunk]):
            kept += await _judge(attempt, chunk, threshold, services)
    return kept


async def _judge(attempt: OpenItems, drafts: Sequence[D], threshold: float, services: Services) -> list[D]:
    refs = [draft.image for draft in drafts]
    embedded, concepts = await together(
        [embed_images(attempt, refs, services), embed_texts(attempt, prompts(), services)]
    )
    vectors = [unit_vector(outcome) for outcome in concepts]
    kept: list[D] = []
    for draft, outcome in zip(drafts, embedded, strict=True):
        async with attempt.fail_items_on_error([draft.item]):
            vector = unit_vector(outcome)
            require_one_space(vector, *vectors)
            concept, nearness = nearest_concept(vector, vectors)
            if nearness < threshold:
                kept.append(draft)
                continue
            detail = f"looks like {concept}: similarity {nearness:.2f}, the limit is {threshold:g}"
            await attempt.filtered(draft.item, OBJECTIONABLE, detail, draft.result)
    return kept
