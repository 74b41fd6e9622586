"""One gain, offset and turn of hue are found, whatever else happened to fewer than half of the pixels."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.preservation.arrays import Floats, lab
from counterpose_core.preservation.drift import Drift, drift
from counterpose_core.transforms.arrays import Mask
from fakes.textures import box, textured

SIZE = 96, 128
EVERYWHERE = np.ones(SIZE, dtype=np.bool_)


def drifted(source: Floats, edited: Floats, steady: Mask = EVERYWHERE) -> Drift | None:
    return drift(source, edited, (lab(source), lab(edited)), steady)


@pytest.mark.parametrize("leak", [False, True])
def test_gain_and_offset_of_each_channel_are_found_beside_a_leak(leak: bool) -> None:
    source = 40 + 0.6 * textured(1).astype(np.float32)
    edited = source * np.array([1.1, 0.9, 1.0], np.float32) + np.array([0, 5, -6], np.float32)
    if leak:
        edited = np.where(box(SIZE, slice(0, 30), slice(0, 100))[..., None], 255 - source, edited)
    fit = drifted(source, edited)
    assert fit is not None
    assert fit.gain == pytest.approx((1.1, 0.9, 1.0), abs=0.01)
    assert fit.offset == pytest.approx((0, 5, -6), abs=1.2)
    assert fit.colour > 3
    assert (fit.share < 0.8) is leak


def test_nothing_drifts_where_nothing_happened() -> None:
    fit = drifted(textured(2).astype(np.float32), textured(2).astype(np.float32))
    assert fit is not None
    assert (fit.gain, fit.share) == ((1.0, 1.0, 1.0), 1.0)
    assert fit.colour == pytest.approx(0.0, abs=1e-3)
    assert fit.hue == pytest.approx(0.0, abs=1e-3)


def test_a_flat_colour_has_an_offset_and_keeps_its_gain() -> None:
    flat = np.full((*SIZE, 3), 90, np.float32)
    fit = drifted(flat, flat + 10)
    assert fit is not None
    assert fit.gain == pytest.approx((1.0, 1.0, 1.0))
    assert fit.offset == pytest.approx((10.0, 10.0, 10.0))
    assert fit.hue is None


def test_a_turn_of_hue_is_found_in_degrees() -> None:
    source = np.zeros((*SIZE, 3), np.float32) + np.array([120, 100, 90], np.float32)
    colours = lab(source)
    angle = np.radians(20)
    turned = colours.copy()
    turned[..., 1] = colours[..., 1] * np.cos(angle) - colours[..., 2] * np.sin(angle)
    turned[..., 2] = colours[..., 1] * np.sin(angle) + colours[..., 2] * np.cos(angle)
    fit = drift(source, source, (colours, turned), EVERYWHERE)
    assert fit is not None
    assert fit.hue == pytest.approx(20.0, abs=0.01)


def test_without_a_majority_there_is_no_drift() -> None:
    edited = np.where(box(SIZE, slice(0, 60), slice(0, 128))[..., None], textured(4), textured(3))
    assert drifted(textured(3).astype(np.float32), edited.astype(np.float32)) is None
    fit = drifted(
        textured(3).astype(np.float32), edited.astype(np.float32), box(SIZE, slice(60, 96), slice(0, 128))
    )
    assert fit is not None
    assert fit.share == 1.0
