"""Structure, colour and patches by their formulas, and what a place and its worst window are."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.errors import NumericalFailure
from counterpose_core.preservation.arrays import lab, luminance, reduced, region_within, size_within
from counterpose_core.preservation.change import Maps, colour_difference, maps, patch_distance, ssim
from counterpose_core.preservation.region import VISIBLE_COLOUR, region_of_change
from fakes.textures import box, textured

SIZE = 96, 128


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((255, 255, 255), (100.0, 0.0, 0.0)),
        ((0, 0, 0), (0.0, 0.0, 0.0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
        ((119, 119, 119), (50.03, 0.0, 0.0)),
    ],
)
def test_cielab_has_the_published_values_of_srgb(
    levels: tuple[int, int, int], expected: tuple[float, float, float]
) -> None:
    result = lab(np.full((1, 1, 3), levels, np.float32))[0, 0]
    assert result.tolist() == pytest.approx(expected, abs=0.02)


def test_levels_between_whole_ones_have_a_colour_between_theirs() -> None:
    below, between, above = (lab(np.full((1, 1, 3), level, np.float32))[0, 0, 0] for level in (80, 80.5, 81))
    assert between == pytest.approx((below + above) / 2, abs=1e-2)


def test_ssim_is_the_formula_of_its_windows() -> None:
    first, second = (luminance(textured(seed).astype(np.float32)) for seed in (1, 2))
    distance = np.arange(-5, 6)
    weights = np.exp(-(distance[:, None] ** 2 + distance**2) / (2 * 1.5**2))
    weights /= weights.sum()
    here, there = (image[40:51, 60:71].astype(np.float64) for image in (first, second))
    mean, mean_there = (weights * here).sum(), (weights * there).sum()
    variance, variance_there = (weights * here**2).sum() - mean**2, (weights * there**2).sum() - mean_there**2
    covariance = (weights * here * there).sum() - mean * mean_there
    c_1, c_2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = (2 * mean * mean_there + c_1) * (2 * covariance + c_2)
    expected /= (mean**2 + mean_there**2 + c_1) * (variance + variance_there + c_2)
    assert ssim(first, second)[45, 65] == pytest.approx(expected, abs=1e-3)
    assert np.abs(ssim(first, first) - 1).max() < 1e-4


def test_colours_differ_by_their_distance_and_grain_averages_out() -> None:
    grey = np.full((*SIZE, 3), 100, np.float32)
    lighter = colour_difference(lab(grey), lab(grey + 20))
    assert lighter == pytest.approx(np.linalg.norm(lab(grey + 20) - lab(grey), axis=-1), abs=1e-2)
    grain = grey + np.random.default_rng(0).normal(0, 5, grey.shape).astype(np.float32)
    by_pixel = np.linalg.norm(lab(grain) - lab(grey), axis=-1).mean()
    assert colour_difference(lab(grey), lab(grain)).mean() < by_pixel / 2


def test_patches_are_compared_by_their_cosines_in_their_place() -> None:
    features = np.random.default_rng(0).normal(size=(4, 4, 8))
    changed = features.copy()
    changed[0, 0] *= -1
    away = patch_distance(features, changed, (32, 32))
    assert away[2, 2] == pytest.approx(2.0, abs=0.2)
    assert away[16:, 16:].max() < 1e-6
    with pytest.raises(ValueError, match=r"\(h, w, d\)"):
        patch_distance(features, features[:3], (32, 32))
    with pytest.raises(NumericalFailure):
        patch_distance(np.zeros((2, 2, 3)), np.ones((2, 2, 3)), (32, 32))


def test_a_leak_moves_the_worst_window_and_hardly_the_mean() -> None:
    image = textured(3).astype(np.float32)
    leak = box(SIZE, slice(10, 22), slice(10, 22))
    edited = np.where(leak[..., None], 255 - image, image)
    result = maps(image, edited, (lab(image), lab(edited))).within(np.ones(SIZE, dtype=np.bool_))
    assert result is not None
    assert result.colour < 2 < 15 < result.worst_colour
    assert result.structure < 0.05 < 0.5 < result.worst_structure
    assert (result.share, result.patches, result.perceptual) == (1.0, None, None)


def test_a_place_without_a_window_has_no_change() -> None:
    flat = Maps(np.zeros(SIZE), np.zeros(SIZE))
    assert flat.within(box(SIZE, slice(0, 90), slice(5, 7))) is None
    assert flat.within(np.zeros(SIZE, dtype=np.bool_)) is None


def test_the_region_of_a_change_is_where_it_is_seen_without_specks_and_gaps() -> None:
    image = textured(4).astype(np.float32)
    place, speck, gap = (
        box(SIZE, slice(20, 60), slice(30, 80)),
        box(SIZE, slice(80, 82), slice(100, 102)),
        box(SIZE, slice(40, 42), slice(50, 52)),
    )
    edited = np.where(((place & ~gap) | speck)[..., None], 255 - image, image)
    result = region_of_change(maps(image, edited, (lab(image), lab(edited))))
    assert (result & place).sum() / (result | place).sum() > 0.8
    assert result[gap].all()
    assert maps(image, edited, (lab(image), lab(edited))).colour[speck].min() > VISIBLE_COLOUR
    assert not result[speck].any()
    nothing = maps(image, image, (lab(image), lab(image)))
    assert not region_of_change(nothing).any()


def test_images_are_reduced_and_never_enlarged_to_work_on() -> None:
    assert size_within((512, 1024, 3), 256) == (128, 256)
    assert size_within((64, 48), 256) == (64, 48)
    assert size_within((2000, 3), 256) == (256, 1)
    image = textured(5)
    half = reduced(image, (48, 64))
    assert half.shape == (48, 64, 3)
    assert half.mean() == pytest.approx(image.mean(), abs=0.5)
    planes = reduced(image.astype(np.float32), (48, 64))
    assert np.abs(half - planes).max() <= 2.0


def test_a_region_keeps_every_pixel_that_it_touches() -> None:
    line = box((200, 200), slice(100, 101), slice(0, 200))
    assert region_within(line, (50, 50)).any(axis=0).all()
    matte = np.where(line, 128, 127).astype(np.uint8)
    assert (region_within(matte, (200, 200)) == line).all()
