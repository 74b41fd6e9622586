"""Mattes: an object with soft edges before another ground looks as if it had been photographed there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageFilter

from counterpose_core.blobs import digest
from counterpose_core.contract.recipes import Recipe
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import encode_png
from counterpose_core.images.masks import INSIDE, mask_pixels
from counterpose_core.transforms import arrays
from counterpose_core.transforms.application import apply
from counterpose_core.transforms.arrays import Mask, Matte, Pixels
from counterpose_core.transforms.table import operation

WHITE, GREY = (255, 255, 255), (150, 150, 150)


def before(ground: Image.Image, pixels: Pixels, matte: Matte) -> Pixels:
    """Return the object before a ground, as Pillow pastes it."""
    image = ground.copy()
    image.paste(Image.fromarray(pixels), mask=Image.fromarray(matte))
    return np.asarray(image)


def away(one: Pixels, other: Pixels) -> int:
    return int(np.abs(one.astype(int) - other).max())


@pytest.fixture
def fur(texture: Callable[..., Pixels]) -> Pixels:
    return texture(200, 224, seed=1)


@pytest.fixture
def soft(fur: Pixels, middle: Callable[[Pixels], Mask]) -> Matte:
    outline = Image.fromarray(middle(fur).astype(np.uint8) * 255)
    return np.array(outline.filter(ImageFilter.GaussianBlur(4)))


@pytest.mark.parametrize("old", [WHITE, GREY])
def test_before_another_photograph_an_object_is_what_pasting_it_there_gives(
    fur: Pixels, soft: Matte, old: tuple[int, int, int], texture: Callable[..., Pixels]
) -> None:
    image = before(Image.new("RGB", (224, 200), old), fur, soft)
    ground = texture(200, 224, seed=2)
    made = apply(image, operation("background-photograph"), 5, mask=soft, other=ground)
    assert away(made, before(Image.fromarray(ground), fur, soft)) <= 2
    # The outline alone takes other colours at the edge.
    outlined = apply(image, operation("background-photograph"), 5, mask=soft >= INSIDE, other=ground)
    assert away(outlined, before(Image.fromarray(ground), fur, soft)) > 20


def test_before_its_own_colour_an_object_stays_as_it_is(fur: Pixels, soft: Matte) -> None:
    image = before(Image.new("RGB", (224, 200), WHITE), fur, soft)
    assert away(apply(image, operation("background-white"), 5, mask=soft), image) <= 1
    assert away(apply(image, operation("background-white"), 2, mask=soft), image) <= 1
    assert away(apply(image, operation("background-blur"), 5, mask=soft), image) <= 1
    assert away(apply(image, operation("background-mirrored"), 5, mask=soft), image) <= 1


def test_an_object_that_shines_through_everywhere_has_a_ground_too(fur: Pixels, soft: Matte) -> None:
    matte = np.maximum(soft, 40)
    image = before(Image.new("RGB", (224, 200), WHITE), fur, matte)
    black, mirrored = (
        apply(image, operation(f"background-{name}"), 5, mask=matte) for name in ("black", "mirrored")
    )
    assert black[:10].mean() < image[:10].mean() - 150
    assert away(mirrored[:10], image[:10]) < 40


def test_a_hidden_part_of_the_object_is_one_of_its_outline(fur: Pixels, soft: Matte) -> None:
    row = operation("occlusion-object")
    made = [apply(fur, row, 3, np.random.default_rng(0), mask) for mask in (soft, soft >= INSIDE)]
    np.testing.assert_array_equal(made[0], made[1])


def test_a_recipe_s_matte_is_reduced_as_its_photograph(fur: Pixels, soft: Matte) -> None:
    stored: dict[str, bytes] = {}

    def put(pixels: Pixels) -> str:
        data = encode_png(pixels)
        stored[digest(data)] = data
        return digest(data)

    image = before(Image.new("RGB", (224, 200), WHITE), fur, soft)
    recipe = Recipe(put(image), "background-grey", 5, size=112, mask=put(mask_pixels(soft, image)))
    made = shown_image(str(recipe), stored.__getitem__)
    assert made.shape == (100, 112, 3)
    grey = before(Image.new("RGB", (224, 200), (128, 128, 128)), fur, soft)
    reduced = np.asarray(Image.fromarray(grey).resize((112, 100), Image.Resampling.LANCZOS))
    assert away(made, reduced) <= 3


def test_files_and_operations_take_the_same_outline() -> None:
    assert INSIDE == arrays.INSIDE
