"""Planted faults are what they say, spare the region, and are not planted where nobody would see them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from PIL import Image

from counterpose_core.preservation.arrays import lab
from counterpose_core.transforms.arrays import Pixels
from evaluation.preservation.planting import (
    CALIBRATION,
    TEST,
    VISIBLE,
    blur,
    difference,
    elsewhere,
    flat,
    gamma,
    hue_matrix,
    leak,
    reshape,
    resized,
    saturation_matrix,
    stored,
    turned,
    warped,
)
from fakes.textures import box, textured

SIZE = 96, 96
REGION = box(SIZE, slice(30, 70), slice(30, 70))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_stretches_share_no_kind_no_size_no_server_and_no_scene() -> None:
    for group in CALIBRATION.faults:
        assert not set(CALIBRATION.faults[group]) & set(TEST.faults[group])
    assert set(CALIBRATION.faults) == set(TEST.faults)
    assert not set(CALIBRATION.over_edited) & set(TEST.over_edited)
    assert not set(CALIBRATION.servers) & set(TEST.servers)
    assert CALIBRATION.split != TEST.split


@pytest.mark.parametrize(("scale", "shift"), [(1.0, (0.1, 0.0)), (1.0, (0.0, -0.2)), (1.25, (0.03, 0.02))])
def test_a_movement_is_that_of_the_formula(scale: float, shift: tuple[float, float]) -> None:
    moved = warped(textured(1, SIZE), scale, shift, "mirror").astype(int)
    away = np.abs(moved - textured(1, SIZE, (scale, scale), shift))
    assert np.median(away) <= 2


@pytest.mark.parametrize("ink", [flat, blur, turned, elsewhere])
@pytest.mark.parametrize("disc", [True, False])
def test_a_leak_is_seen_outside_the_region_and_nowhere_in_it(ink: object, disc: bool) -> None:
    image = textured(2, SIZE)
    changed = leak(image, REGION, generator(), side=0.2, disc=disc, ink=ink)  # type: ignore[arg-type]  # any of them
    assert changed is not None
    place = (changed != image).any(axis=-1)
    assert not place[REGION].any()
    assert difference(image, changed, place) >= VISIBLE
    rows, columns = np.nonzero(place)
    assert max(np.ptp(rows), np.ptp(columns)) <= 0.2 * 96 + 1


def test_what_nobody_would_see_is_not_planted() -> None:
    plain = np.full((*SIZE, 3), 100, np.uint8)
    assert leak(plain, REGION, generator(), side=0.2, disc=False, ink=elsewhere) is None
    assert gamma(np.full((*SIZE, 3), 255, np.uint8), REGION, generator(), power=0.7) is None
    assert gamma(textured(2, SIZE), REGION, generator(), power=0.7) is not None


def test_a_region_of_nearly_all_leaves_no_room_for_a_leak() -> None:
    nearly = ~box(SIZE, slice(0, 96), slice(0, 2))
    assert leak(textured(2, SIZE), nearly, generator(), side=0.2, disc=False, ink=flat) is None


def test_hues_turn_by_their_degrees_and_grey_stays_grey() -> None:
    assert hue_matrix(25.0) @ np.ones(3) == pytest.approx(np.ones(3))
    assert hue_matrix(120.0) @ np.array([1.0, 0, 0]) == pytest.approx([0, 1, 0], abs=1e-9)
    assert np.linalg.matrix_power(hue_matrix(30.0), 12) == pytest.approx(np.eye(3))


def test_half_the_saturation_is_half_the_way_to_grey() -> None:
    colour = np.array([200.0, 100.0, 50.0])
    grey = saturation_matrix(0.0) @ colour
    assert np.ptp(grey) == pytest.approx(0.0)
    assert saturation_matrix(0.5) @ colour == pytest.approx((colour + grey) / 2)


@pytest.mark.parametrize(
    ("server", "size"),
    [
        (partial(stored, form="JPEG", quality=80), SIZE),
        (partial(stored, form="WEBP", quality=85), SIZE),
        (partial(resized, scale=1.5), (144, 144)),
        (partial(resized, scale=0.75), (72, 72)),
    ],
)
def test_servers_answer_with_nearly_the_same_image(server: partial[Pixels], size: tuple[int, int]) -> None:
    answer = server(textured(3, SIZE), generator())
    assert answer.shape == (*size, 3)
    back = np.asarray(Image.fromarray(answer).resize((96, 96)))
    assert (
        0
        < np.linalg.norm(
            lab(back.astype(np.float32)) - lab(textured(3, SIZE).astype(np.float32)), axis=-1
        ).mean()
        < 12
    )


def test_another_form_is_as_much_wider_as_it_says() -> None:
    assert reshape(textured(3, SIZE), REGION, generator(), wider=1.25).shape == (96, 120, 3)
