"""A movement is found to a fraction of a per cent, also where a region changed, and none is invented."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.preservation.registration import Registration, has_texture, register, undone
from counterpose_core.transforms.arrays import Mask, Pixels
from fakes.textures import box, textured

SIZE = 96, 128


def registered(source: Pixels, edited: Pixels, steady: Mask | None = None) -> Registration:
    movement = register(source.astype(np.float32), edited.astype(np.float32), steady)
    assert movement is not None
    return movement


def test_the_image_itself_is_at_rest() -> None:
    movement = registered(textured(1), textured(1))
    assert (movement.shift, movement.scale, movement.visible) == ((0.0, 0.0), (1.0, 1.0), 1.0)
    assert movement.agreement == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        ((1.0, 1.0), (0.02, 0.0)),
        ((1.0, 1.0), (-0.013, 0.017)),
        ((1.0, 1.0), (0.2, -0.1)),
        ((1.06, 1.06), (0.0, 0.0)),
        ((0.85, 0.85), (0.0, 0.0)),
        ((1.25, 1.25), (0.08, 0.1)),
        ((1.05, 1.0), (0.0, 0.03)),
    ],
)
def test_shift_and_scale_are_found_to_a_fraction_of_a_per_cent(
    scale: tuple[float, float], shift: tuple[float, float]
) -> None:
    movement = registered(textured(2), textured(2, SIZE, scale, shift))
    assert movement.shift == pytest.approx(shift, abs=0.003)
    assert movement.scale == pytest.approx(scale, abs=0.006)
    assert movement.at_rest < movement.agreement


def test_a_movement_is_found_by_what_was_kept_though_most_was_replaced() -> None:
    steady = box(SIZE, slice(30, 70), slice(35, 95))
    moved = np.roll(steady, 4, axis=1)
    source = np.where(steady[..., None], textured(3), textured(4))
    edited = np.where(moved[..., None], textured(3, SIZE, shift=(4 / 128, 0.0)), textured(5))
    assert registered(source, edited, steady).shift == pytest.approx((4 / 128, 0.0), abs=0.004)


def test_a_replaced_region_does_not_pull_at_what_stayed() -> None:
    changed = box(SIZE, slice(20, 80), slice(10, 60))
    edited = np.where(changed[..., None], textured(7), textured(6))
    assert registered(textured(6), edited).moved == 0.0
    assert (
        registered(textured(6), edited, ~changed).agreement > 0.98 > registered(textured(6), edited).agreement
    )


def test_brightness_and_contrast_are_no_movement() -> None:
    darker = (20 + 0.5 * textured(8)).astype(np.uint8)
    assert registered(textured(8), darker).moved == 0.0


def test_another_image_has_nothing_in_common() -> None:
    assert register(textured(9).astype(np.float32), textured(10).astype(np.float32)) is None


def test_stripes_and_flat_places_have_no_texture() -> None:
    stripes = np.broadcast_to(textured(11)[:1], (*SIZE, 3)).astype(np.float32)
    assert not has_texture(stripes)
    assert not has_texture(np.full((*SIZE, 3), 128, np.float32))
    image = textured(11).astype(np.float32)
    assert has_texture(image)
    assert not has_texture(image, box(SIZE, slice(0, 4), slice(0, 4)))
    with pytest.raises(ValueError, match="has_texture"):
        register(stripes, stripes)


def test_what_is_still_seen_is_the_overlap_of_the_frames() -> None:
    assert registered(textured(12), textured(12, SIZE, shift=(0.1, 0.0))).visible == pytest.approx(
        0.9, abs=0.01
    )
    zoomed = registered(textured(12), textured(12, SIZE, scale=(1.25, 1.25)))
    assert zoomed.visible == pytest.approx(0.64, abs=0.01)
    assert zoomed.scaled == pytest.approx(0.25, abs=0.006)
    assert registered(textured(12), textured(12, SIZE, scale=(0.9, 0.9))).visible == 1.0


def test_undoing_a_movement_gives_the_source_back() -> None:
    movement = Registration((0.05, -0.1), (1.1, 1.1), 1.0, 0.0, 1.0)
    image = textured(13).astype(np.float32)
    back, within = undone(textured(13, SIZE, (1.1, 1.1), (0.05, -0.1)).astype(np.float32), movement)
    assert np.abs(back - image)[within].mean() < 2.0
    assert 0.6 < within.mean() < 0.9
