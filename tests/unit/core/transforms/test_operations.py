"""Camera, optics, geometry, occlusion, marks and backgrounds: what each does to pixels that we can tell."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from counterpose_core.transforms import camera, geometry, occlusion, optics
from counterpose_core.transforms.application import apply
from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_core.transforms.table import operation

GREY = 128


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def pixels(texture: Callable[..., Pixels]) -> Pixels:
    return texture(120, 160)


@pytest.fixture
def mask(pixels: Pixels, middle: Callable[[Pixels], Mask]) -> Mask:
    return middle(pixels)


def grey_share(image: Pixels) -> float:
    return float((image == GREY).all(axis=-1).mean())


@pytest.mark.parametrize(
    ("name", "enhancement"),
    [
        ("darker", ImageEnhance.Brightness),
        ("brighter", ImageEnhance.Brightness),
        ("low-contrast", ImageEnhance.Contrast),
        ("high-contrast", ImageEnhance.Contrast),
        ("low-saturation", ImageEnhance.Color),
    ],
)
def test_light_contrast_and_colour_are_those_of_pillow(
    pixels: Pixels, name: str, enhancement: Callable[[Image.Image], ImageEnhance._Enhance]
) -> None:
    row = operation(name)
    expected = enhancement(Image.fromarray(pixels)).enhance(row.at(3)["factor"])
    np.testing.assert_array_equal(apply(pixels, row, 3), np.asarray(expected))


def test_greyscale_is_pillows_and_sharpening_its_unsharp_mask(pixels: Pixels) -> None:
    image = Image.fromarray(pixels)
    np.testing.assert_array_equal(
        apply(pixels, operation("greyscale"), 1), np.asarray(image.convert("L").convert("RGB"))
    )
    mask = ImageFilter.UnsharpMask(1.5 * 160 / 224, 300, 0)
    np.testing.assert_array_equal(apply(pixels, operation("sharpening"), 3), np.asarray(image.filter(mask)))


def test_a_stop_halves_the_light_and_three_more_bring_it_back() -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    assert camera.exposure(ramp, stops=-1)[11, 12, 0] == 137  # sRGB 188 is half the light of white
    back = camera.exposure(camera.exposure(ramp, stops=-1), stops=1)
    assert np.abs(back.astype(int) - ramp).max() <= 4
    np.testing.assert_array_equal(camera.exposure(ramp, stops=0), ramp)


def test_white_balance_leaves_green_alone(pixels: Pixels) -> None:
    warm, cold = (
        apply(pixels, operation(name), 3).astype(int) - pixels for name in ("warm-light", "cold-light")
    )
    assert not warm[..., 1].any()
    assert not cold[..., 1].any()
    assert warm[..., 0].mean() > 5 > -5 > warm[..., 2].mean()
    assert cold[..., 2].mean() > 5 > -5 > cold[..., 0].mean()


def test_a_hue_turned_by_half_a_circle_is_the_opposite_colour() -> None:
    red = np.full((8, 8, 3), (255, 0, 0), np.uint8)
    assert np.abs(camera.hue(red, degrees=180)[0, 0].astype(int) - (0, 255, 255)).max() <= 6


@pytest.mark.parametrize("size", [(400, 300), (100, 60)])
def test_low_resolution_keeps_so_many_pixels(texture: Callable[..., Pixels], size: tuple[int, int]) -> None:
    pixels = texture(*size)
    side = 64 if size[0] > 224 else 64 / 224 * size[0]
    small = int(side * size[1] / size[0] + 1e-6), int(side + 1e-6)
    expected = (
        Image.fromarray(pixels)
        .resize(small, Image.Resampling.LANCZOS)
        .resize(size[::-1], Image.Resampling.BICUBIC)
    )
    np.testing.assert_array_equal(apply(pixels, operation("low-resolution"), 3), np.asarray(expected))


def test_sensor_noise_is_that_of_photons() -> None:
    # sRGB 188 is half of the light that a pixel holds: 20,000 electrons at ISO 100, and so 625 at ISO 1600.
    grey = np.full((224, 224, 3), 188, np.uint8)
    noisy = camera.iso_noise(grey, iso=1600, generator=generator())
    light = ((noisy / 255 + 0.055) / 1.055) ** 2.4
    assert light.mean() == pytest.approx(0.5, abs=0.01)
    assert light.std() == pytest.approx(math.sqrt(625 + 9) / 1250, rel=0.05)


def test_radial_distortion_leaves_the_middle_and_moves_the_corner() -> None:
    rows = np.arange(101, dtype=np.uint8)[:, None, None] * np.ones((1, 101, 3), np.uint8)
    barrel = optics.radial_distortion(rows, bend=-0.2)
    assert barrel[50, 50, 0] == 50
    assert barrel[0, 0, 0] == 10  # a fifth of the way to the middle
    assert barrel[50, 0, 0] == 50


def test_jitter_blurs_across_more_than_down() -> None:
    point = np.zeros((224, 224, 3), np.uint8)
    point[112, 112] = 255
    blurred = optics.jitter(point, sigma=3) > 0
    assert blurred.any((0, 2)).sum() > 1.5 * blurred.any((1, 2)).sum()


def test_haze_hides_the_top_more_than_the_bottom() -> None:
    black = np.zeros((100, 50, 3), np.uint8)
    hazy = apply(black, operation("haze"), 3)
    assert hazy[0].mean() == pytest.approx(0.9 * 255 * (1 - math.exp(-1.2)), abs=1)
    assert hazy[-1].mean() == pytest.approx(0.9 * 255 * (1 - math.exp(-1.2 * 0.4)), abs=1)


def test_drops_cover_more_the_more_there_are_and_leave_the_rest(pixels: Pixels) -> None:
    wet = [
        float((apply(pixels, operation("lens-drops"), level, generator()) != pixels).any(axis=-1).mean())
        for level in (1, 3, 5)
    ]
    assert wet == sorted(wet)
    assert 0.02 < wet[0] < 0.2 < wet[2] < 0.8


def test_a_drop_shows_what_is_around_it_upside_down() -> None:
    ramp = np.arange(224, dtype=np.uint8)[:, None, None] * np.ones((1, 224, 3), np.uint8)
    wet = optics.drops(ramp, count=1, radius=20, generator=generator())[..., 0].astype(int)
    rows, columns = np.nonzero(wet != ramp[..., 0])
    middle = round(columns.mean())
    quarter = np.ptp(rows) // 4
    top, bottom = wet[rows.min() + quarter, middle], wet[rows.max() - quarter, middle]
    assert top > bottom + 10


def test_turbulence_displaces_by_its_amplitude() -> None:
    ramp = np.arange(224, dtype=np.uint8)[:, None, None] * np.ones((1, 224, 3), np.uint8)
    moved = optics.turbulence(ramp, amplitude=3, sigma=0.5, generator=generator())
    away = (moved.astype(float) - ramp)[20:-20, 20:-20]
    assert away.std() == pytest.approx(3, rel=0.25)


def test_rotation_is_pillows_filled_with_grey(pixels: Pixels) -> None:
    image = Image.fromarray(pixels)
    expected = image.rotate(45, Image.Resampling.BICUBIC, fillcolor=(GREY,) * 3)
    np.testing.assert_array_equal(apply(pixels, operation("rotation"), 5), np.asarray(expected))


def test_flips_and_half_a_turn_move_every_pixel_and_change_none(pixels: Pixels) -> None:
    image = Image.fromarray(pixels)
    for name, expected in (
        ("flip-horizontal", ImageOps.mirror(image)),
        ("flip-vertical", ImageOps.flip(image)),
        ("upside-down", image.rotate(180)),
    ):
        np.testing.assert_array_equal(apply(pixels, operation(name), 1), np.asarray(expected))


def test_shrinking_and_cropping_are_about_the_middle(pixels: Pixels) -> None:
    shrunk = geometry.shrinking(pixels, factor=0.5)
    expected = Image.fromarray(pixels).resize((80, 60), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(shrunk[30:90, 40:120], np.asarray(expected))
    assert grey_share(shrunk) >= 0.75
    cropped = geometry.crop(pixels, share=0.5)
    expected = Image.fromarray(pixels[30:90, 40:120]).resize((160, 120), Image.Resampling.BICUBIC)
    assert np.abs(cropped[20:-20, 20:-20].astype(int) - np.asarray(expected)[20:-20, 20:-20]).max() <= 1


@pytest.mark.parametrize("seed", range(4))
def test_translation_moves_by_its_share_of_the_longest_side(pixels: Pixels, seed: int) -> None:
    whole = np.zeros_like(pixels)
    whole[60, 80] = 255
    moved = geometry.translation(whole, share=0.2, generator=generator(seed))
    row, column = np.argwhere(moved[..., 0] == 255)[0]
    assert math.hypot(row - 60, column - 80) == pytest.approx(32, abs=1)
    assert (moved == GREY).any()


def test_perspective_shortens_one_side_and_keeps_the_opposite_one(pixels: Pixels) -> None:
    white = np.full_like(pixels, 255)
    shortened = set()
    for seed in range(12):
        tilted = geometry.perspective(white, share=0.4, generator=generator(seed))[..., 0]
        edges = {"top": tilted[0], "bottom": tilted[-1], "left": tilted[:, 0], "right": tilted[:, -1]}
        whole = [name for name, edge in edges.items() if edge.mean() > 240]
        assert len(whole) == 1
        shortened.add(whole[0])
        # As long a side as before, the other by 40 % shorter, and 20 % nearer.
        assert np.mean(tilted == 255) == pytest.approx(0.8 * 0.8, abs=0.03)
    assert shortened == {"top", "bottom", "left", "right"}


@pytest.mark.parametrize("place", ["", "-centre", "-top", "-bottom", "-left", "-right"])
@pytest.mark.parametrize("level", [1, 3, 5])
def test_a_patch_hides_its_share_at_its_place(place: str, level: int) -> None:
    black = np.zeros((101, 150, 3), np.uint8)
    row = operation(f"occlusion{place}")
    hidden = apply(black, row, level, generator(level))[..., 0] == GREY
    assert hidden.mean() == pytest.approx(row.at(level)["share"], abs=0.005)
    rows, columns = np.nonzero(hidden)
    touched = {
        "-top": rows.min() == 0,
        "-bottom": rows.max() == 100,
        "-left": columns.min() == 0,
        "-right": columns.max() == 149,
        "-centre": abs(rows.mean() - 50) < 1 and abs(columns.mean() - 74.5) < 1,
        "": True,
    }
    assert touched[place]


def test_random_patches_lie_anywhere_within_the_image() -> None:
    black = np.zeros((40, 40, 3), np.uint8)
    covered = np.mean(
        [occlusion.random_patch(black, share=0.2, generator=generator(seed))[..., 0] for seed in range(60)],
        axis=0,
    )
    assert np.mean(covered > 0) > 0.85


@pytest.mark.parametrize("level", [1, 3, 5])
def test_a_patch_on_the_object_hides_its_share_of_the_object(mask: Mask, level: int) -> None:
    black = np.zeros((*mask.shape, 3), np.uint8)
    row = operation("occlusion-object")
    for seed in range(5):
        hidden = apply(black, row, level, generator(seed), mask)[..., 0] == GREY
        assert hidden[mask].mean() == pytest.approx(row.at(level)["share"], abs=0.05)
        rows, columns = np.nonzero(hidden)
        assert hidden.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)


def test_an_object_of_one_pixel_can_be_hidden() -> None:
    mask = np.zeros((20, 20), bool)
    mask[0, 19] = True
    hidden = apply(np.zeros((20, 20, 3), np.uint8), operation("occlusion-object"), 1, generator(), mask)
    assert np.argwhere(hidden[..., 0]).tolist() == [[0, 19]]


@pytest.mark.parametrize("shape", [(64, 64), (64, 300), (300, 64), (224, 224)])
@pytest.mark.parametrize("name", ["text", "watermark", "date-stamp"])
def test_writing_fits_into_the_image_and_leaves_the_rest(name: str, shape: tuple[int, int]) -> None:
    grey = np.full((*shape, 3), 90, np.uint8)
    for level in (1, 5):
        written = (apply(grey, operation(name), level, generator(level)) != 90).any(axis=-1)
        assert 0.0005 < written.mean() < 0.35
        # Nothing is cut off: the outermost pixels are free, or the writing ends there.
        assert written[:, 0].mean() < 0.5
        assert written[:, -1].mean() < 0.5


def test_a_watermark_lies_in_the_middle_and_the_date_in_the_corner() -> None:
    grey = np.full((224, 224, 3), 90, np.uint8)
    rows, columns = np.nonzero((apply(grey, operation("watermark"), 3) != 90).any(axis=-1))
    assert abs(rows.min() + rows.max() - 223) <= 4
    assert abs(columns.min() + columns.max() - 223) <= 8
    assert np.ptp(columns) > 150
    stamped = apply(grey, operation("date-stamp"), 3, generator())
    rows, columns = np.nonzero((stamped != 90).any(axis=-1))
    assert rows.min() > 150
    assert columns.min() > 90
    assert tuple(stamped[rows, columns].max(axis=0)) == (255, 140, 90)


def test_a_watermark_lets_through_what_is_below_it(pixels: Pixels) -> None:
    black, white = (np.full((100, 100, 3), level, np.uint8) for level in (0, 255))
    assert apply(black, operation("watermark"), 3).max() == pytest.approx(127.5, abs=1)
    np.testing.assert_array_equal(apply(white, operation("watermark"), 3), white)


def test_a_border_covers_the_edge_only(pixels: Pixels) -> None:
    framed = apply(pixels, operation("border"), 5)
    np.testing.assert_array_equal(framed[24:-24, 24:-24], pixels[24:-24, 24:-24])
    for edge in (framed[:24], framed[-24:], framed[:, :24], framed[:, -24:]):
        assert not edge.any()


@pytest.mark.parametrize(("name", "grey"), [("grey", 128), ("black", 0), ("white", 255)])
def test_a_plain_background_replaces_all_but_the_object(
    pixels: Pixels, mask: Mask, name: str, grey: int
) -> None:
    result = apply(pixels, operation(f"background-{name}"), 5, mask=mask)
    assert_object_stays(result, pixels, mask)
    assert (result[far_from(mask)] == grey).all()
    half = apply(pixels, operation(f"background-{name}"), 3, mask=mask)[far_from(mask)]
    expected = 0.4 * pixels[far_from(mask)] + 0.6 * grey
    assert np.abs(half - expected).max() <= 1


def test_the_edge_of_the_object_is_feathered(mask: Mask) -> None:
    white = np.full((*mask.shape, 3), 255, np.uint8)
    result = apply(white, operation("background-black"), 5, mask=mask)
    assert 2 <= np.count_nonzero((result[60, :80, 0] > 10) & (result[60, :80, 0] < 245)) <= 6


def test_a_coloured_background_has_one_colour_by_the_seed(pixels: Pixels, mask: Mask) -> None:
    colours = {
        tuple(apply(pixels, operation("background-colour"), 5, generator(seed), mask)[0, 0])
        for seed in range(3)
    }
    assert len(colours) == 3
    result = apply(pixels, operation("background-colour"), 5, generator(), mask)
    assert len(np.unique(result[far_from(mask)], axis=0)) == 1


def test_nothing_of_the_object_spreads_into_a_blurred_background(mask: Mask) -> None:
    scene = np.where(mask[..., None], (255, 0, 0), (0, 90, 0)).astype(np.uint8)
    result = apply(scene, operation("background-blur"), 5, mask=mask)
    assert (result[far_from(mask)] == (0, 90, 0)).all()
    assert_object_stays(result, scene, mask)


def test_another_photograph_covers_the_background(
    pixels: Pixels, mask: Mask, texture: Callable[..., Pixels]
) -> None:
    other = texture(90, 300, seed=4)
    result = apply(pixels, operation("background-photograph"), 5, mask=mask, other=other)
    expected = np.asarray(ImageOps.fit(Image.fromarray(other), (160, 120), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(result[far_from(mask)], expected[far_from(mask)])
    assert_object_stays(result, pixels, mask)


def far_from(mask: Mask) -> Mask:
    """Where no object is within ten pixels."""
    rows, columns = np.nonzero(mask)
    far = np.ones_like(mask)
    far[max(rows.min() - 10, 0) : rows.max() + 11, max(columns.min() - 10, 0) : columns.max() + 11] = False
    return far


def assert_object_stays(result: Pixels, pixels: Pixels, mask: Mask) -> None:
    inner = np.s_[50:70, 65:95]
    assert mask[inner].all()
    np.testing.assert_array_equal(result[inner], pixels[inner])
