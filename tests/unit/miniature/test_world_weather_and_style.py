"""Weather is applied after style: the effect of each on the pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from counterpose_miniature.world.nuisance import Nuisance, nuisance_of
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.styles import stylised, weathered

SEEDS = range(4)


def scene(seed: int = 0, object_class: str = "bus") -> Scene:
    return Scene(object_class, "plain", "red", "grass", "clear", "photo", "none", nuisance=seed)


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((64, 64, 3), dtype=np.float32)


def test_a_clear_photo_is_the_unmodified_drawing() -> None:
    image = noise()
    assert stylised(image, "photo", nuisance_of(1)) is image
    assert weathered(image, "clear", nuisance_of(1)) is image


@pytest.mark.parametrize(
    ("effect", "value"),
    [(stylised, value) for value in VALUES["style"]] + [(weathered, value) for value in VALUES["weather"]],
)
def test_style_and_weather_keep_colours_in_range_and_their_input_unchanged(
    effect: Callable[[np.ndarray, str, Nuisance], np.ndarray], value: str
) -> None:
    image = noise()
    changed = effect(image, value, nuisance_of(2))
    assert changed.shape == image.shape
    assert 0.0 <= float(changed.min()) <= float(changed.max()) <= 1.0
    assert np.array_equal(image, noise())


@pytest.mark.parametrize("seed", SEEDS)
def test_fog_veils_every_pixel_evenly_and_keeps_its_noise(seed: int) -> None:
    clear, fog = (render(scene(seed).changed("weather", name)).astype(float) for name in ("clear", "fog"))
    veil = np.array([0.80, 0.81, 0.83]) * 255
    # What is left is a third of the camera noise of two levels, and rounding; white clips a little more.
    assert float(np.quantile(np.abs(fog - (0.65 * clear + 0.35 * veil)), 0.999)) < 4


@pytest.mark.parametrize("seed", SEEDS)
def test_the_moon_is_on_the_side_of_the_companion_above_every_object(seed: int) -> None:
    night = render(scene(seed).changed("weather", "night")).astype(float).mean(axis=2)
    row, column = np.unravel_index(int(night[:16].argmax()), (16, 64))
    assert (column >= 32) == (nuisance_of(seed).companion_side > 0)
    assert abs(int(row) - 8) < 6
    for name in VALUES["object_class"]:
        moon = 10 if nuisance_of(seed).companion_side < 0 else 53
        assert object_mask(scene(seed, name))[5:12, moon - 3 : moon + 4].max() == 0.0


def test_rain_darkens_and_adds_bright_streaks() -> None:
    flat = np.full((64, 64, 3), 0.6, np.float32)
    wet = weathered(flat, "rain", nuisance_of(3))
    assert float(np.median(wet[..., 0])) == pytest.approx(0.6 * 0.70, abs=1e-3)
    streaks = wet[..., 0] > 0.6
    assert 0.01 < float(streaks.mean()) < 0.3


def test_streaks_and_dabs_are_determined_by_their_seed() -> None:
    flat = noise()
    for made in (
        [weathered(flat, "rain", nuisance_of(seed)) for seed in (1, 1, 2)],
        [stylised(flat, "painting", nuisance_of(seed)) for seed in (1, 1, 2)],
    ):
        assert np.array_equal(made[0], made[1])
        assert not np.array_equal(made[0], made[2])


def test_a_sketch_is_pale_paper_with_dark_lines() -> None:
    photo = render(scene()).astype(np.float32) / 255
    sketch = stylised(photo, "sketch", nuisance_of(0))
    chroma = [float((each.max(axis=2) - each.min(axis=2)).mean()) for each in (photo, sketch)]
    assert chroma[1] < 0.7 * chroma[0]
    assert float(np.median(sketch)) > float(np.median(photo))
    assert float(sketch.min()) < 0.3


def test_a_painting_is_warm() -> None:
    grey = np.full((64, 64, 3), 0.5, np.float32)
    painted = stylised(grey, "painting", nuisance_of(0)).mean(axis=(0, 1))
    assert painted[0] > painted[1] > painted[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_dabs_move_an_outline_by_a_few_pixels_at_most(seed: int) -> None:
    edge = np.zeros((64, 64, 3), np.float32)
    edge[:, 32:] = 1.0
    painted = stylised(edge, "painting", nuisance_of(seed)).mean(axis=2)
    assert float(painted[:, :29].max()) < 0.35
    assert float(painted[:, 35:].min()) > 0.6
    assert len({int((row > 0.5).argmax()) for row in painted}) > 1
