"""The metrics of an edit on vectors with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.errors import NumericalFailure
from counterpose_core.images.clip_metrics import cosine, directional_similarity, unit

EAST, NORTH, UP = np.eye(3)


def test_unit_scales_every_row_to_length_one() -> None:
    rows = unit([[3.0, 4.0], [0.0, -2.0]])
    assert rows.tolist() == [[0.6, 0.8], [0.0, -1.0]]


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_zero_vector_is_refused(vector: list[float]) -> None:
    with pytest.raises(NumericalFailure):
        unit(vector)


@pytest.mark.paper("DI-S3.1-object-metric", "DI-S3.1-shift-metric")
def test_cosine_is_pairwise_and_ignores_length() -> None:
    similarities = cosine([EAST, EAST, EAST], [2.0 * EAST, NORTH, -3.0 * EAST])
    assert similarities.tolist() == [1.0, 0.0, -1.0]


def test_direction_is_one_for_a_change_along_the_caption() -> None:
    assert directional_similarity(EAST, NORTH, EAST, NORTH) == pytest.approx(1.0)


def test_direction_is_minus_one_for_the_opposite_change() -> None:
    assert directional_similarity(NORTH, EAST, EAST, NORTH) == pytest.approx(-1.0)


def test_direction_is_zero_for_an_unrelated_change() -> None:
    assert directional_similarity(EAST + UP, EAST - UP, EAST, NORTH) == pytest.approx(0.0)


@pytest.mark.paper("LANCE-EQ2-direction")
def test_direction_matches_equation_two() -> None:
    generator = np.random.default_rng(0)
    image, edited, text, edited_text = (v / np.linalg.norm(v) for v in generator.standard_normal((4, 16)))
    images, captions = image - edited, text - edited_text
    phi = 1 - images @ captions / (np.linalg.norm(images) * np.linalg.norm(captions))
    assert directional_similarity(image, edited, text, edited_text) == pytest.approx(1 - phi)


def test_an_unchanged_image_has_no_direction() -> None:
    assert directional_similarity(EAST, EAST, EAST, NORTH) == 0.0
    assert directional_similarity(EAST, NORTH, UP, UP) == 0.0


def test_rounding_errors_give_no_direction() -> None:
    rounded = EAST + 1e-6 * NORTH
    assert directional_similarity(EAST, rounded, EAST, NORTH) == 0.0
    assert directional_similarity(EAST, NORTH, EAST, rounded) == 0.0
    assert directional_similarity(EAST, EAST + 1e-4 * NORTH, EAST, NORTH) > 0.5
