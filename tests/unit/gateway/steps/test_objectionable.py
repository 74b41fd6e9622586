"""The objectionable concept nearest to an image."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_gateway.steps.objectionable import CONCEPTS, concept_prompts, nearest_concept

AXES = np.eye(len(CONCEPTS))


def test_every_concept_is_queried_once() -> None:
    assert len(set(concept_prompts())) == len(CONCEPTS) > 5
    assert all(concept in prompt for concept, prompt in zip(CONCEPTS, concept_prompts(), strict=True))


def test_the_nearest_concept_is_named_with_its_cosine() -> None:
    image = 3.0 * AXES[2] + 4.0 * AXES[5]
    name, nearness = nearest_concept(image, list(AXES))
    assert name == CONCEPTS[5]
    assert nearness == pytest.approx(0.8)


def test_each_concept_needs_exactly_one_embedding() -> None:
    with pytest.raises(ValueError, match="zip"):
        nearest_concept(AXES[0], list(AXES[:-1]))
