"""Backgrounds of other photographs and the own one, mirrored: nothing of any other object comes along."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from counterpose_core.blobs import digest
from counterpose_core.contract.recipes import Recipe
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import encode_png
from counterpose_core.images.masks import mask_pixels
from counterpose_core.transforms.application import apply
from counterpose_core.transforms.arrays import Mask, Matte, Pixels
from counterpose_core.transforms.backgrounds import emptied
from counterpose_core.transforms.exclusions import changed_kind
from counterpose_core.transforms.table import OPERATIONS, operation

RED, GREEN, BLUE = (255, 0, 0), (0, 120, 0), (0, 0, 255)


def scene(mask: Mask, inside: tuple[int, ...], outside: tuple[int, ...]) -> Pixels:
    return np.where(mask[..., None], inside, outside).astype(np.uint8)


def at(shape: tuple[int, int], top: int, left: int, side: int = 40) -> Mask:
    mask = np.zeros(shape, np.bool_)
    mask[top : top + side, left : left + side] = True
    return mask


def matte(mask: Mask) -> Matte:
    return np.where(mask, 255, 0).astype(np.uint8)


@pytest.mark.parametrize("shape", [(120, 160), (400, 300), (32, 32)])
def test_where_an_object_was_lies_what_is_around_it(shape: tuple[int, int]) -> None:
    mask = at(shape, 8, 8, 20)
    assert (emptied(scene(mask, RED, GREEN), mask) == GREEN).all()


def test_what_fills_the_place_of_an_object_has_the_pattern_of_its_surroundings() -> None:
    stripes = np.zeros((224, 224, 3), np.uint8)
    stripes[:, (np.arange(224) // 8) % 2 == 1] = 255
    mask = at((224, 224), 100, 100, 24)
    inside = emptied(stripes, mask)[104:120, 104:120]
    assert inside.min() < 60
    assert inside.max() > 195


def test_an_object_that_fills_nearly_all_leaves_the_mean_of_the_rest() -> None:
    mask = np.ones((64, 64), np.bool_)
    mask[0, :] = False
    assert (emptied(scene(mask, RED, GREEN), mask)[10:] == GREEN).all()


def test_the_own_background_is_mirrored_and_the_object_stays() -> None:
    mask = at((120, 160), 40, 10)
    image = scene(mask, RED, GREEN)
    image[:, 150:] = BLUE
    result = apply(image, operation("background-mirrored"), 5, mask=mask)
    assert (result[50:70, 20:40] == RED).all()
    assert (result[:30, :8] == BLUE).all()
    # The object is not seen twice.
    assert (result[45:75, 115:145] == GREEN).all()


def test_the_old_background_does_not_shine_around_the_object() -> None:
    mask = at((224, 224), 80, 80, 60)
    soft = scene(mask, RED, (255, 255, 255)).astype(np.float64)
    # An edge of the photograph itself: half red, half white.
    soft[79, 80:140] = soft[140, 80:140] = (255, 128, 128)
    result = apply(soft.astype(np.uint8), operation("background-black"), 5, mask=mask)
    assert result[..., 1:].max() == 0


def test_a_thin_part_of_the_object_keeps_its_colours() -> None:
    mask = at((224, 224), 80, 80, 60)
    mask[60:80, 100:102] = True
    image = scene(mask, RED, GREEN)
    image[60:80, 100:102] = BLUE
    result = apply(image, operation("background-black"), 5, mask=mask)
    assert result[65, 100, 2] > 120
    assert result[65, 100, 0] == 0


def test_a_recipe_takes_the_object_out_of_the_other_photograph() -> None:
    stored: dict[str, bytes] = {}

    def put(pixels: Pixels) -> str:
        data = encode_png(pixels)
        stored[digest(data)] = data
        return digest(data)

    own, others = at((96, 96), 30, 30), at((96, 96), 2, 2)
    image, other = scene(own, RED, GREEN), scene(others, BLUE, GREEN)
    mask, other_mask = (put(mask_pixels(matte(each), image)) for each in (own, others))
    recipe = Recipe(
        put(image), "background-same-class", 5, mask=mask, other=put(other), other_mask=other_mask
    )
    assert Recipe.parsed(str(recipe)) == recipe
    result = shown_image(str(recipe), stored.__getitem__)
    assert (result[2:20, 2:20] == GREEN).all()
    whole = Recipe(recipe.source, "background-photograph", 5, mask=recipe.mask, other=recipe.other)
    assert (shown_image(str(whole), stored.__getitem__)[4:18, 4:18] == BLUE).all()


def test_every_background_has_a_placebo_that_cuts_as_it_does() -> None:
    for row in OPERATIONS.values():
        if row.family != "background" or row.name == "background-mirrored":
            continue
        placebo = operation(row.placebo)
        assert placebo.numbers["share"][placebo.levels - 1] == 1
        assert placebo.constants["feather"] == row.constants["feather"]
        for level in range(1, row.levels + 1):
            share = row.at(level).get("share", 1)
            assert placebo.at(row.placebo_level(level))["share"] == share


@pytest.mark.parametrize(
    ("name", "label", "kind"),
    [
        ("flip-horizontal", "b", "letters"),
        ("rotation", "6", "digits"),
        ("upside-down", "Digit six", "digits"),
        ("flip-vertical", "street sign", "signs"),
        ("rotation", "arrow left", "arrows"),
        ("rotation", "vitamin c", None),
        ("rotation", "sparrow", None),
        ("rotation", "design", None),
        ("darker", "6", None),
    ],
)
def test_the_name_of_a_class_tells_what_may_change_its_label(name: str, label: str, kind: str | None) -> None:
    assert changed_kind(operation(name), label) == kind


@pytest.fixture
def ellipse(middle: Callable[[Pixels], Mask]) -> Mask:
    return middle(np.zeros((120, 160, 3), np.uint8))


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_a_patch_hides_its_share_of_the_object(ellipse: Mask, level: int) -> None:
    row = operation("occlusion-object")
    image = scene(ellipse, RED, GREEN)
    for seed in range(4):
        result = apply(image, row, level, np.random.default_rng(seed), ellipse)
        hidden = (result != image).any(axis=-1)
        share = (hidden & ellipse).sum() / ellipse.sum()
        assert row.at(level)["share"] <= share <= row.at(level)["share"] + 0.05
