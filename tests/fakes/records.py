"""Finished items with features and likelihoods as the workflow records them."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.perturber import TextLikelihood
from counterpose_core.contract.runs import Item
from counterpose_core.types import EditType, ItemKind
from fakes.results import Ledgered

WIDTH = 4
AFTER = {"steady": 0.9, "leaning": 0.9}
ADJECTIVES = 10
"""Fewer sources than a kernel distance needs."""


def vector(draws: np.random.Generator, shift: float) -> FeatureVector:
    """A unit vector about (1, shift, 0, 0)."""
    numbers = np.array([1.0, shift, 0.0, 0.0]) + draws.normal(0.0, 0.2, WIDTH)
    return FeatureVector.of((numbers / np.linalg.norm(numbers)).tolist())


def recorded(
    sources: int, *, nats: float = -2.0, clip: str = "clip@1", language_model: str = "llama@1"
) -> list[Item]:
    """Reconstructions near their originals, edits far from them, captions of falling likelihood."""
    draws, ledgered, items = np.random.default_rng(3), Ledgered(), []
    models = {"clip": clip, "language-model": language_model}

    def add(source: int, kind: ItemKind, edit_type: EditType | None, shift: float, surprise: float) -> None:
        made = ledgered.add(f"source-{source}", kind, edit_type=edit_type, after=AFTER)
        assert made.result is not None
        update = {
            "models": models,
            "image_features": vector(draws, shift),
            "source_features": vector(draws, 0.0) if kind == "reconstruction" else None,
            "likelihood": TextLikelihood(nats=(nats - surprise) * (8 + source % 3), tokens=6 + source % 3),
        }
        items.append(made.model_copy(update={"result": made.result.model_copy(update=update)}))

    for source in range(sources):
        add(source, "reconstruction", None, 0.0, 0.0)
        add(source, "placebo", None, 0.0, 0.1)
        add(source, "edit", "background", 2.0, 0.4)
        if source < ADJECTIVES:
            add(source, "edit", "adjective", 2.0, 0.4)
    return items
