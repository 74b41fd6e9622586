"""Corruptions against SciPy, Pillow and what their published descriptions say, at 224 pixels."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy
from PIL import Image

from counterpose_core.transforms import blur, digital, noise, weather
from counterpose_core.transforms.application import apply
from counterpose_core.transforms.arrays import Pixels
from counterpose_core.transforms.table import operation

LEVEL = 1.0
"""Results may differ by a level: the promise of docs/design/determinism.md."""


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def pixels(texture: Callable[..., Pixels]) -> Pixels:
    return texture(224, 224)


def assert_same(result: Pixels, expected: np.ndarray) -> None:
    assert np.abs(result.astype(float) - np.floor(expected)).max() <= LEVEL


@pytest.mark.parametrize("level", [1, 5])
def test_gaussian_blur_is_that_of_scipy(pixels: Pixels, level: int) -> None:
    sigma = operation("gaussian-blur").at(level)["sigma"]
    expected = scipy.ndimage.gaussian_filter(pixels.astype(float), (sigma, sigma, 0), mode="nearest")
    assert_same(apply(pixels, operation("gaussian-blur"), level), expected)


def test_defocus_blur_of_level_one_is_a_disc_of_radius_three(pixels: Pixels) -> None:
    rows, columns = np.mgrid[-3:4, -3:4]
    disc = (rows**2 + columns**2 <= 9) / 29
    expected = scipy.ndimage.convolve(pixels.astype(float), disc[..., None], mode="mirror")
    assert_same(apply(pixels, operation("defocus-blur"), 1), expected)


def test_jpeg_compression_is_that_of_pillow(pixels: Pixels) -> None:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=7)
    np.testing.assert_array_equal(
        apply(pixels, operation("jpeg-compression"), 5), np.asarray(Image.open(buffer))
    )


def test_pixelate_reduces_to_134_pixels_at_level_one(pixels: Pixels) -> None:
    small = Image.fromarray(pixels).resize((134, 134), Image.Resampling.BOX)
    expected = np.asarray(small.resize((224, 224), Image.Resampling.BOX))
    np.testing.assert_array_equal(apply(pixels, operation("pixelate"), 1), expected)


@pytest.mark.parametrize("colour", [(200, 30, 60), (0, 0, 0), (90, 90, 90), (10, 250, 250), (255, 255, 255)])
def test_brightness_and_saturate_are_those_of_the_hsv_model(colour: tuple[int, int, int]) -> None:
    image = np.full((8, 8, 3), colour, np.uint8)
    hue, saturation, value = colorsys.rgb_to_hsv(*(level / 255 for level in colour))
    brighter = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1))
    assert_same(apply(image, operation("brightness"), 3)[0, 0], np.array(brighter) * 255)
    redder = colorsys.hsv_to_rgb(hue, min(saturation * 5 + 0.1, 1), value)
    assert_same(apply(image, operation("saturate"), 4)[0, 0], np.array(redder) * 255)


def test_contrast_keeps_the_mean_of_each_channel(pixels: Pixels) -> None:
    result = apply(pixels, operation("contrast"), 5)
    np.testing.assert_allclose(result.mean((0, 1)), pixels.mean((0, 1)), atol=1)
    np.testing.assert_allclose(result.std((0, 1)), pixels.std((0, 1)) * 0.05, rtol=0.1)


def test_zoom_blur_keeps_the_middle_and_averages_as_many_layers_as_published() -> None:
    point = np.zeros((224, 224, 3), np.uint8)
    point[10, 10] = 255
    # Twice unmoved, of 17 layers at zooms of 1 to 1.15; elsewhere once at most.
    result = blur.zoom_blur(point, largest=1.15, step=0.01)
    assert result[10, 10, 0] == 255 * 2 // 17
    assert result[:9].max() <= 255 // 17 + LEVEL


def test_gaussian_and_speckle_noise_have_their_deviation() -> None:
    grey = np.full((224, 224, 3), 128, np.uint8)
    added = noise.gaussian_noise(grey, deviation=0.1, generator=generator())
    assert added.std() == pytest.approx(25.5, rel=0.02)
    multiplied = noise.speckle_noise(grey, deviation=0.1, generator=generator())
    assert multiplied.std() == pytest.approx(12.8, rel=0.02)


def test_shot_noise_has_the_variance_of_counting() -> None:
    grey = np.full((224, 224, 3), 64, np.uint8)
    noisy = noise.shot_noise(grey, photons=60, generator=generator())
    assert noisy.mean() == pytest.approx(63.5, abs=0.5)
    assert noisy.std() == pytest.approx(255 * np.sqrt(64 / 255 / 60), rel=0.02)


def test_impulse_noise_strikes_its_share_half_of_it_black() -> None:
    noisy = noise.impulse_noise(np.full((224, 224, 3), 90, np.uint8), share=0.2, generator=generator())
    assert [np.mean(noisy == level) for level in (0, 90, 255)] == pytest.approx([0.1, 0.8, 0.1], abs=0.01)


def test_noise_is_as_strong_as_published_once_the_image_is_reduced() -> None:
    grey = np.full((448, 448, 3), 128, np.uint8)
    large = noise.gaussian_noise(grey, deviation=0.1, generator=generator())
    small = Image.fromarray(large).resize((224, 224), Image.Resampling.BOX)
    assert np.asarray(small).std() == pytest.approx(25.5, rel=0.02)


def test_glass_moves_values_within_its_reach_and_blurs_none_of_them_in_between() -> None:
    rows = np.repeat(np.arange(224, dtype=np.uint8)[:, None, None], 224, axis=1).repeat(3, axis=2)
    moved = blur.glass_blur(rows, sigma=1e-3, reach=2, rounds=1, generator=generator())
    away = moved.astype(int) - rows
    # A value may be taken on from neighbour to neighbour upwards, but down by the reach only.
    assert away.min() == -2
    assert 2 < away.max() < 40
    np.testing.assert_array_equal(away[:3], 0)


def test_values_taken_one_after_the_other_are_those_of_a_plain_loop() -> None:
    shape, reach = (12, 15), 2
    sources = blur._shuffle(shape, reach, generator(5))
    offsets = generator(5).integers(-reach, reach, (2, 8, 11))
    values = np.arange(12 * 15).reshape(shape)
    for row in range(10, 2, -1):
        for column in range(13, 2, -1):
            down, across = offsets[:, row - 3, column - 3]
            values[row, column] = values[row + down, column + across]
    np.testing.assert_array_equal(sources.reshape(shape), values)


def test_motion_drags_by_half_a_gaussian_along_its_angle() -> None:
    kernel = blur.motion(3, 2, 0)
    assert kernel.shape == (1, 13)
    np.testing.assert_allclose(kernel[0, 7:], 0)
    expected = np.exp(-0.5 * (np.arange(7) / 2) ** 2)
    np.testing.assert_allclose(kernel[0, 6::-1], expected / expected.sum(), atol=1e-5)
    assert blur.motion(3, 2, -90).shape == (13, 1)


def test_a_fog_s_pattern_is_smoother_the_faster_its_range_decays() -> None:
    roughness = []
    for decay in (1.4, 2.0, 3.0):
        cloud = weather.plasma(generator(), decay)
        assert (cloud.shape, cloud.min(), cloud.max()) == ((256, 256), 0, 1)
        roughness.append(float(np.abs(np.diff(cloud, axis=0)).mean()))
        # Its edges meet.
        assert np.abs(cloud[0] - cloud[-1]).mean() < 3 * roughness[-1]
    assert roughness[0] > 1.5 * roughness[1] > 1.5 * roughness[2]


def test_fog_keeps_the_brightest_value_as_bound(pixels: Pixels) -> None:
    dark = pixels // 2
    assert apply(dark, operation("fog"), 5, generator()).max() <= dark.max()


def test_water_brightens_and_mud_is_brown() -> None:
    grey = np.full((224, 224, 3), 100, np.uint8)
    splashed = apply(grey, operation("spatter"), 2, generator())
    assert splashed.min() >= 100
    assert 0.02 < np.mean(splashed > 110) < 0.5
    muddy = apply(grey, operation("spatter"), 5, generator())
    assert (muddy == (63, 42, 20)).all(axis=-1).any()
    assert 0.05 < np.mean(muddy[..., 2] < 50) < 0.5


def test_snow_and_frost_whiten(pixels: Pixels) -> None:
    for name in ("snow", "frost"):
        result = apply(pixels // 2, operation(name), 3, generator())
        assert result.mean() > pixels.mean() / 2 + 20


def test_flakes_fall_twice_the_second_time_turned_around() -> None:
    snowy = apply(np.zeros((224, 200, 3), np.uint8), operation("snow"), 1, generator())
    np.testing.assert_array_equal(snowy, snowy[::-1, ::-1])


def test_elastic_displacements_are_smooth_and_grow_with_level_and_size() -> None:
    small, large = (np.zeros((side, side, 3), np.uint8) for side in (224, 448))
    fields = [digital.elastic_field(image, 30, generator())[0] for image in (small, large)]
    weak = digital.elastic_field(small, 12.5, generator())[0]
    # 0.5 % of 224, uniform, smoothed by 1 % of it, times 30.
    assert fields[0].std() == pytest.approx(1.12 / np.sqrt(3) * 30 / (2 * np.sqrt(np.pi) * 2.24), rel=0.1)
    np.testing.assert_allclose(weak * 30 / 12.5, fields[0], rtol=1e-4, atol=1e-4)
    assert fields[1].std() == pytest.approx(2 * fields[0].std(), rel=0.1)


def test_elastic_displacements_near_the_border_are_no_stronger_than_published() -> None:
    fields = [
        digital.elastic_field(np.zeros((224, 224, 3), np.uint8), 30, generator(seed))[0] for seed in range(8)
    ]
    border, middle = (np.std([field[rows] for field in fields]) for rows in (0, slice(20, -20)))
    # A reflected border counts values twice; one that is repeated weighs half of the kernel by one value.
    assert 1.2 < border / middle < 1.45


def test_patterns_look_alike_at_every_size(texture: Callable[..., Pixels]) -> None:
    for name in ("snow", "fog", "frost"):
        small, large = (
            apply(np.full((side, side, 3), 60, np.uint8), operation(name), 3, generator())
            for side in (224, 448)
        )
        reduced = np.asarray(Image.fromarray(large).resize((224, 224), Image.Resampling.BOX), float)
        assert np.abs(reduced - small).mean() < 4
        assert np.corrcoef(reduced.ravel(), small.ravel())[0, 1] > 0.95


def test_truncation_leaves_whole_levels_alone(pixels: Pixels) -> None:
    same = replace(operation("contrast"), numbers={"factor": (1.0,)})
    np.testing.assert_array_equal(apply(pixels, same, 1), pixels)
