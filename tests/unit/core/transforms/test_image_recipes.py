"""Recipes: what they are written as, what is made of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from counterpose_core.blobs import digest
from counterpose_core.contract.recipes import IDENTITY, PLACEBO, ImageRef, Recipe, is_recipe
from counterpose_core.errors import InvalidRequest
from counterpose_core.image_recipes import shown_image, working
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_core.transforms.application import apply, generator_of
from counterpose_core.transforms.arrays import Mask, Pixels
from counterpose_core.transforms.table import operation

DIGEST = "ab" * 32
REFERENCE = TypeAdapter(ImageRef)


class Stored(dict[str, bytes]):
    """Bytes by their digest."""

    def put(self, data: bytes) -> str:
        self[digest(data)] = data
        return digest(data)


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(DIGEST),
        Recipe(DIGEST, "rotation", level=3, seed=7, size=None),
        Recipe(DIGEST, "background-photograph", level=5, size=224, mask="cd" * 32, other="ef" * 32),
    ],
)
def test_a_recipe_is_read_as_it_was_written(recipe: Recipe) -> None:
    assert Recipe.parsed(str(recipe)) == recipe
    assert REFERENCE.validate_python(str(recipe)) == str(recipe)
    assert is_recipe(str(recipe))
    assert not is_recipe(recipe.source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGEST,
        f"{DIGEST}/",
        f"{DIGEST}/rotation/1/0/512/-",
        f"{DIGEST}/Rotation/1/0/512/-/-",
        f"{DIGEST}/rotation/10/0/512/-/-",
        f"{DIGEST}/rotation/1/-1/512/-/-",
        f"{DIGEST}/rotation/1/0/512/../..",
        f"{DIGEST}/rotation/1/0/512/-/-\n",
        f"{DIGEST[:-1]}/rotation/1/0/512/-/-",
    ],
)
def test_what_is_no_recipe_is_refused(text: str) -> None:
    assert not is_recipe(text)
    with pytest.raises(InvalidRequest, match="no recipe"):
        Recipe.parsed(text)
    if text != DIGEST:
        with pytest.raises(ValidationError):
            REFERENCE.validate_python(text)


@pytest.mark.parametrize("size", ["0", "4097", "0000"])
def test_a_size_out_of_range_is_refused(size: str) -> None:
    with pytest.raises(InvalidRequest, match=r"not in \[1, 4096\]"):
        Recipe.parsed(f"{DIGEST}/identity/0/0/{size}/-/-")


def test_a_digest_is_the_stored_image_and_identity_its_working_size(
    texture: Callable[..., Pixels], stored: Stored
) -> None:
    pixels = texture(120, 200)
    source = stored.put(encode_png(pixels))
    read = stored.__getitem__
    np.testing.assert_array_equal(shown_image(source, read), pixels)
    reduced = shown_image(str(Recipe(source, IDENTITY, size=100)), read)
    assert reduced.shape == (60, 100, 3)
    np.testing.assert_array_equal(reduced, working(pixels, 100))
    for size in (200, 4096, None):
        np.testing.assert_array_equal(shown_image(str(Recipe(source, size=size)), read), pixels)


def test_a_line_stays_a_line(texture: Callable[..., Pixels]) -> None:
    assert working(texture(1, 3000), 512).shape == (1, 512, 3)


def test_everybody_makes_the_same_pixels_by_source_operation_level_and_seed(
    texture: Callable[..., Pixels], stored: Stored
) -> None:
    pixels = texture(96, 96)
    source = stored.put(encode_png(pixels))
    recipe = Recipe(source, "gaussian-noise", level=2, seed=5)
    expected = apply(pixels, operation("gaussian-noise"), 2, generator_of(source, "gaussian-noise", 2, 5))
    for _ in range(2):
        np.testing.assert_array_equal(shown_image(str(recipe), stored.__getitem__), expected)
    other = shown_image(str(Recipe(source, "gaussian-noise", level=2, seed=6)), stored.__getitem__)
    assert not np.array_equal(other, expected)


def test_a_placebo_moves_no_value_by_more_than_one(texture: Callable[..., Pixels], stored: Stored) -> None:
    pixels = texture(64, 64)
    pixels[:8], pixels[8:16] = 0, 255
    source = stored.put(encode_png(pixels))
    moved = shown_image(str(Recipe(source, PLACEBO, seed=1)), stored.__getitem__)
    assert moved.dtype == np.uint8
    steps = np.abs(moved.astype(int) - pixels)
    assert steps.max() == 1
    assert 0.5 < steps.mean() < 0.7


def test_a_mask_is_light_where_the_object_is_and_reduced_with_its_photograph(
    texture: Callable[..., Pixels], middle: Callable[[Pixels], Mask], stored: Stored
) -> None:
    pixels = texture(150, 200)
    inside = middle(pixels)
    mask = stored.put(encode_raw(np.repeat(np.where(inside, 255, 0).astype(np.uint8)[..., None], 3, axis=2)))
    source = stored.put(encode_png(pixels))
    recipe = Recipe(source, "background-black", level=5, size=100, mask=mask)
    made = shown_image(str(recipe), stored.__getitem__)
    assert made.shape == (75, 100, 3)
    assert not made[:5, :5].any()
    np.testing.assert_array_equal(made[37, 50], working(pixels, 100)[37, 50])


def test_a_mask_of_another_shape_is_refused(texture: Callable[..., Pixels], stored: Stored) -> None:
    source, mask = (stored.put(encode_png(texture(*shape))) for shape in ((150, 200), (200, 150)))
    recipe = Recipe(source, "background-black", level=5, mask=mask)
    with pytest.raises(InvalidRequest, match="200 pixels, which is not the shape of its photograph"):
        shown_image(str(recipe), stored.__getitem__)


@pytest.mark.parametrize(
    ("name", "level", "sentence"),
    [
        ("rotatoin", 1, "did you mean 'rotation'"),
        ("upside-down", 2, "level 1 only"),
        ("background-grey", 1, "needs a mask"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_in_a_sentence(
    name: str, level: int, sentence: str, texture: Callable[..., Pixels], stored: Stored
) -> None:
    source = stored.put(encode_png(texture(64, 64)))
    with pytest.raises(InvalidRequest, match=sentence):
        shown_image(str(Recipe(source, name, level=level)), stored.__getitem__)
