"""Objectionable images, found by CLIP without training (LANCE, section 4.2).

The paper's authors inspected every image and removed 8 of 781; a list of concepts can only flag suspects.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from faultline_core.images.clip_metrics import cosine

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
    """Return the concepts as captions, in order, in the form that CLIP was trained on."""
    return [f"a picture of {concept}" for concept in CONCEPTS]


def nearest_concept(image: ArrayLike, concepts: Sequence[ArrayLike]) -> tuple[str, float]:
    """Return the concept nearest to an image (d,) and the cosine; ``concepts`` embed `prompts`."""
    found = [(float(cosine(image, vector)), name) for name, vector in zip(CONCEPTS, concepts, strict=True)]
    nearest, name = max(found)
    return name, nearest
