"""The metrics of an edit on vectors whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from faultline_core.clip_metrics import cosine, directional_similarity, pairwise_l1, unit
from faultline_core.errors import NumericalFailure

EAST, NORTH, UP = np.eye(3)


def test_unit_scales_every_row_to_length_one() -> None:
    rows = unit([[3.0, 4.0], [0.0, -2.0]])
    assert rows.tolist() == [[0.6, 0.8], [0.0, -1.0]]


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_vector_without_direction_is_refused(vector: list[float]) -> None:
    with pytest.raises(NumericalFailure):
        unit(vector)


def test_cosine_compares_pair_by_pair_whatever_the_lengths() -> None:
    similarities = cosine([EAST, EAST, EAST], [2.0 * EAST, NORTH, -3.0 * EAST])
    assert similarities.tolist() == [1.0, 0.0, -1.0]


def test_direction_is_one_where_the_picture_changes_as_the_caption_does() -> None:
    assert directional_similarity(EAST, NORTH, EAST, NORTH) == pytest.approx(1.0)


def test_direction_is_minus_one_where_the_picture_changes_the_other_way() -> None:
    assert directional_similarity(NORTH, EAST, EAST, NORTH) == pytest.approx(-1.0)


def test_direction_is_zero_where_the_picture_changes_in_another_respect() -> None:
    assert directional_similarity(EAST + UP, EAST - UP, EAST, NORTH) == pytest.approx(0.0)


def test_direction_agrees_with_equation_two_written_out() -> None:
    generator = np.random.default_rng(0)
    image, edited, text, edited_text = (v / np.linalg.norm(v) for v in generator.standard_normal((4, 16)))
    pictures, captions = image - edited, text - edited_text
    phi = 1 - pictures @ captions / (np.linalg.norm(pictures) * np.linalg.norm(captions))
    assert directional_similarity(image, edited, text, edited_text) == pytest.approx(1 - phi)


def test_without_change_there_is_no_direction() -> None:
    assert directional_similarity(EAST, EAST, EAST, NORTH) == 0.0
    assert directional_similarity(EAST, NORTH, UP, UP) == 0.0


def test_l1_distances_come_as_a_table() -> None:
    table = pairwise_l1([EAST, NORTH], [EAST, UP, EAST + UP])
    assert table.tolist() == [[0.0, 2.0, 1.0], [2.0, 2.0, 3.0]]
