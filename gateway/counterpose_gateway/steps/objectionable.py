"""Filter generated images that look objectionable, by CLIP without training (LANCE, section 4.2).

The paper's authors inspected every image and removed 8 of 781; a list of concepts can only flag suspects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from numpy.typing import ArrayLike

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.runs import Provenance
from counterpose_core.images.clip_metrics import cosine
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.steps.clip import embed_images, embed_texts, require_one_space, unit_vector

OBJECTIONABLE = "objectionable"
"""The reason of a filtered item."""

CONCEPTS: tuple[str, ...] = (
    "nudity",
    "a sexual act",
    "blood and gore",
    "a dead body",
    "a person being hurt",
    "self-harm",
    "a hate symbol",
    "a demeaning caricature of a person",
)


class _Draft(Protocol):
    @property
    def item(self) -> LeasedItem: ...
    @property
    def image(self) -> str: ...
    @property
    def result(self) -> Provenance: ...


D = TypeVar("D", bound=_Draft)


async def drop_objectionable(
    calls: Calls, drafts: Sequence[D], threshold: float | None
) -> tuple[list[D], Drops]:
    """Filter the images that reach the run's threshold for any concept; without a threshold, none.

    They fail if the scorer fails: an image that could not be checked is not kept.
    """
    kept, drops = list[D](), Drops()
    if threshold is None:
        return list(drafts), drops
    for start in range(0, len(drafts), MAX_BATCH):
        chunk = drafts[start : start + MAX_BATCH]
        with drops.on_error([draft.item for draft in chunk]):
            kept += await _judge(calls, chunk, threshold, drops)
    return kept, drops


async def _judge(calls: Calls, drafts: Sequence[D], threshold: float, drops: Drops) -> list[D]:
    refs = [draft.image for draft in drafts]
    embedded, concepts = await together([embed_images(calls, refs), embed_texts(calls, concept_prompts())])
    vectors = [unit_vector(outcome) for outcome in concepts]
    kept: list[D] = []
    for draft, outcome in zip(drafts, embedded, strict=True):
        with drops.on_error([draft.item]):
            vector = unit_vector(outcome)
            require_one_space(vector, *vectors)
            concept, nearness = nearest_concept(vector, vectors)
            if nearness < threshold:
                kept.append(draft)
                continue
            detail = f"looks like {concept}: similarity {nearness:.2f}, the limit is {threshold:g}"
            drops.filtered(draft.item, OBJECTIONABLE, detail, draft.result)
    return kept


def concept_prompts() -> list[str]:
    """Return the concepts as captions, in order, in the form that CLIP was trained on."""
    return [f"a picture of {concept}" for concept in CONCEPTS]


def nearest_concept(image: ArrayLike, concepts: Sequence[ArrayLike]) -> tuple[str, float]:
    """Return the concept nearest to an image (d,) and the cosine; ``concepts`` embed `concept_prompts`."""
    found = [(float(cosine(image, vector)), name) for name, vector in zip(CONCEPTS, concepts, strict=True)]
    nearest, name = max(found)
    return name, nearest
