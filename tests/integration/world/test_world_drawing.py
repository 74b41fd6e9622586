"""The drawing of the world: brush, colours, grounds, objects and companions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from counterpose_miniature.world.backgrounds import background
from counterpose_miniature.world.brush import (
    OBJECT_COLOURS,
    OUTLINE,
    PATCH_COLOURS,
    Brush,
    mixed,
    paint,
    shifted,
)
from counterpose_miniature.world.nuisance import nuisance_of
from counterpose_miniature.world.objects import COMPANIONS, OBJECTS
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.scene import VALUES, Scene

WHITE, RED = (255, 255, 255), (200, 0, 0)


def brush(canvas: Image.Image, *, angle: float = 0.0, flip: bool = False, outline: float = 7.0) -> Brush:
    return Brush(ImageDraw.Draw(canvas), (128.0, 128.0), 50.0, angle, flip, outline)


def blank() -> Image.Image:
    return Image.new("RGB", (256, 256), WHITE)


def scene(object_class: str, seed: int = 0, **changes: str) -> Scene:
    made = Scene(object_class, "plain", "red", "grass", "clear", "photo", "none", nuisance=seed)
    for name, value in changes.items():
        made = made.changed(name, value)
    return made


@pytest.mark.parametrize(
    ("angle", "flip", "expected"),
    [(0.0, False, (178, 128)), (0.0, True, (78, 128)), (90.0, False, (128, 178)), (90.0, True, (128, 78))],
)
def test_a_brush_flips_then_rotates_then_places(angle: float, flip: bool, expected: tuple[int, int]) -> None:
    (found,) = brush(blank(), angle=angle, flip=flip).place([(1.0, 0.0)])
    assert found == pytest.approx(expected)


def test_a_zero_width_outline_draws_only_the_fill() -> None:
    bare, lined = blank(), blank()
    brush(bare).box(-1, -1, 1, 1, RED, outline=0)
    brush(lined).box(-1, -1, 1, 1, RED)
    assert {colour for _, colour in bare.getcolors() or []} == {WHITE, RED}
    assert OUTLINE in {colour for _, colour in lined.getcolors() or []}


def test_an_ellipse_keeps_its_size_when_rotated() -> None:
    areas = []
    for turn in (0.0, 37.0, 90.0):
        canvas = blank()
        brush(canvas).ellipse((0, 0), (1.0, 0.5), RED, turn=turn, outline=0)
        areas.append(int((np.asarray(canvas)[..., 1] == 0).sum()))
    assert areas == pytest.approx([np.pi * 50 * 25] * 3, rel=0.05)


def test_shifted_colours_stay_in_range_and_mixing_reaches_both_ends() -> None:
    assert shifted((250, 5, 100), (10, -10, 3)) == (255, 0, 103)
    assert mixed(RED, WHITE, 0.0) == RED
    assert mixed(RED, WHITE, 1.0) == WHITE


def test_object_colours_stay_distinct_under_palette_jitter() -> None:
    jitter = 2 * 10 * 3**0.5
    for one, other in combinations(OBJECT_COLOURS.values(), 2):
        assert float(np.linalg.norm(np.subtract(one, other))) > 100 + jitter


def test_no_patch_colour_resembles_an_object_colour() -> None:
    assert set(PATCH_COLOURS) == set(OBJECT_COLOURS) == set(VALUES["colour"])
    for patch in PATCH_COLOURS.values():
        nearest = min(float(np.linalg.norm(np.subtract(patch, own))) for own in OBJECT_COLOURS.values())
        assert nearest > 55


def test_paint_has_a_darker_shade_and_a_lighter_highlight() -> None:
    for colour in VALUES["colour"]:
        made = paint(colour, (0, 0, 0))
        assert sum(made.shade) < sum(made.main) < sum(made.light)


def test_every_class_and_companion_has_a_drawing() -> None:
    assert tuple(OBJECTS) == VALUES["object_class"]
    assert set(COMPANIONS) == set(VALUES["companion"]) - {"none"}


def test_grounds_differ_below_the_horizon() -> None:
    means = [
        np.asarray(background(name, nuisance_of(4)), dtype=float)[120:].mean(axis=(0, 1))
        for name in VALUES["background"]
    ]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(means, 2)) > 30


@pytest.mark.parametrize("name", VALUES["background"])
def test_a_ground_has_the_horizon_of_its_nuisance(name: str) -> None:
    shown = nuisance_of(11)
    column = np.asarray(background(name, shown), dtype=float).mean(axis=1)
    jump = np.linalg.norm(np.diff(column, axis=0), axis=1)
    # Hedges, hills and houses are on the horizon, and their upper edge may be the sharpest.
    assert abs(int(jump.argmax()) / 4 - shown.horizon) < 17
    other = nuisance_of(12)
    assert not np.array_equal(np.asarray(background(name, shown)), np.asarray(background(name, other)))


@pytest.mark.parametrize("object_class", VALUES["object_class"])
def test_an_object_is_inside_the_frame_and_away_from_its_companion(object_class: str) -> None:
    for seed in range(3):
        mask = object_mask(scene(object_class, seed))
        assert mask[0].max() == mask[-1].max() == 0.0
        centre = float((mask.sum(axis=0) * np.arange(64)).sum() / mask.sum())
        assert (centre < 32) == (nuisance_of(seed).companion_side > 0)


def test_a_close_up_leaves_the_frame_opposite_the_companion() -> None:
    for seed in range(3):
        close = object_mask(scene("boat", seed, kind="special"))
        left, right = float(close[:, 0].max()), float(close[:, -1].max())
        outer, inner = (left, right) if nuisance_of(seed).companion_side > 0 else (right, left)
        assert (outer, inner) == (1.0, 0.0)
        assert close.sum() > object_mask(scene("boat", seed)).sum()


@pytest.mark.parametrize("companion", sorted(COMPANIONS))
def test_a_companion_keeps_to_its_side_and_has_its_own_colours(companion: str) -> None:
    for seed in range(4):
        alone, together = scene("bee", seed), scene("bee", seed, companion=companion)
        changed = np.abs(render(alone).astype(int) - render(together)).max(axis=2) > 20
        centre = float(np.nonzero(changed)[1].mean())
        assert (centre > 32) == (nuisance_of(seed).companion_side > 0)


@pytest.mark.parametrize("object_class", sorted(set(VALUES["object_class"]) - {"boat"}))
def test_the_special_kind_is_visible_on_the_object(object_class: str) -> None:
    plain, special = scene(object_class, 3), scene(object_class, 3, kind="special")
    changed = np.abs(render(plain).astype(int) - render(special)).max(axis=2) > 30
    covered = (object_mask(plain) > 0) | (object_mask(special) > 0)
    assert changed[covered].sum() > 40
    assert changed[~covered].sum() == 0
