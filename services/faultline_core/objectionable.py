"""Pictures that nobody should have to look at, found by CLIP without any training (LANCE, section 4.2).

The paper's authors looked at every picture and removed 8 of 781; a list of concepts can only suspect.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from faultline_core.clip_metrics import cosine

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


def prompts() -> list[str]:
    """The concepts as captions, in their order, as CLIP was trained to read them."""
    return [f"a picture of {concept}" for concept in CONCEPTS]


def nearest_concept(picture: ArrayLike, concepts: Sequence[ArrayLike]) -> tuple[str, float]:
    """Return the concept a picture (d,) is nearest to, and the cosine; ``concepts`` embeds `prompts`."""
    found = [(float(cosine(picture, vector)), name) for name, vector in zip(CONCEPTS, concepts, strict=True)]
    nearest, name = max(found)
    return name, nearest
