"""The difference map is bright where a pair differs, outlines the region, and is told apart by every eye."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.preservation.difference_map import difference_map
from fakes.textures import box, textured

SIZE = 96, 128
REGION = box(SIZE, slice(25, 75), slice(40, 100))


def test_what_changed_is_yellow_and_what_stayed_is_blue() -> None:
    edited = np.where(REGION[..., None], 255 - textured(1), textured(1))
    drawn = difference_map(textured(1), edited, region=REGION).astype(int)
    assert drawn.shape == (*SIZE, 3)
    inside, outside = drawn[30:70, 45:95].reshape(-1, 3), drawn[:20].reshape(-1, 3)
    assert (outside[:, 2] > outside[:, 0] + 20).all()
    assert np.median(inside[:, 0] - inside[:, 2]) > 20
    assert inside.mean() > 2 * outside.mean()


def test_the_outline_of_the_region_is_white_within_black() -> None:
    drawn = difference_map(textured(1), textured(1), region=REGION)
    assert (drawn[25, 40:100] == 255).all()
    assert (drawn[24, 40:100] == 0).all()
    plain = difference_map(textured(1), textured(1))
    assert not (plain == 255).all(axis=-1).any()


def test_a_movement_is_undone_before_the_map_is_drawn() -> None:
    drawn = difference_map(textured(1), textured(1, SIZE, shift=(0.1, 0.0)), region=REGION).astype(int)
    assert (drawn[5:20, 10:100, 2] > drawn[5:20, 10:100, 0]).mean() > 0.95
    assert (drawn[5:20, -8:] == 128).all()


def test_larger_images_are_drawn_in_their_working_size() -> None:
    image = textured(1, (300, 600))
    assert difference_map(image, image).shape == (128, 256, 3)


def test_a_map_needs_two_images_of_some_size() -> None:
    with pytest.raises(ValueError, match="32 pixels"):
        difference_map(textured(1), textured(1, (16, 16)))


def test_more_change_is_never_darker_to_any_eye() -> None:
    grey = np.full((*SIZE, 3), 128, np.uint8)
    lightness = []
    for step in range(0, 120, 8):
        drawn = difference_map(grey, (grey + step).astype(np.uint8), region=REGION)[5, 5].astype(float)
        lightness.append(float(drawn @ [0.2126, 0.7152, 0.0722]))
        # Red and green go together: who cannot tell these apart sees the same steps in brightness.
        assert abs(drawn[0] - drawn[1]) < 40
    assert (np.diff(lightness) >= 0).all()
    assert lightness[-1] - lightness[0] > 100
