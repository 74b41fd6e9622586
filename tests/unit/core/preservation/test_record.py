"""What is recorded of a pair: the faults that can be told of it, its measures and its map."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.preservation.record import recorded
from counterpose_core.transforms.arrays import Pixels
from fakes.textures import box, textured

SIZE = 96, 128
REGION = box(SIZE, slice(25, 75), slice(40, 100))


def edited(seed: int = 2) -> Pixels:
    return np.where(REGION[..., None], textured(seed), textured(1))


def test_an_edit_of_a_region_that_nobody_gave_has_no_fault_and_a_map_of_its_size() -> None:
    record, drawn = recorded(textured(1), edited(), control=False)
    assert (record.faults, record.control) == ([], False)
    assert record.region_share == pytest.approx(REGION.mean(), abs=0.06)
    assert record.inside is not None
    assert record.outside is not None
    assert record.inside.colour > 5 > 1 > record.outside.colour
    assert drawn is not None
    assert drawn.shape == (*SIZE, 3)
    # Yellow has more red than blue.
    within = drawn[40:60, 60:80].astype(int)
    assert (
        (within[..., 0] - within[..., 2]).mean()
        > 20
        > -20
        > (drawn[:10, :10, 0].astype(int) - drawn[:10, :10, 2]).mean()
    )


def test_a_moved_edit_is_moved_by_so_much() -> None:
    moved = np.where(
        np.roll(REGION, 8, axis=1)[..., None], textured(2), textured(1, SIZE, shift=(8 / 128, 0.0))
    )
    record, _ = recorded(textured(1), moved, control=False)
    assert record.faults == ["moved"]
    assert record.movement is not None
    assert record.movement.shift == pytest.approx((8 / 128, 0.0), abs=0.005)


def test_of_a_control_all_that_differs_counts_and_of_an_edit_nothing_is_called_leaked_or_drifted() -> None:
    warm = np.clip(textured(1).astype(np.float32) * [1.0, 0.9, 0.8] + [25, 0, 0], 0, 255).astype(np.uint8)
    assert recorded(textured(1), edited(), control=True)[0].faults == ["leaked"]
    assert "drifted" in recorded(textured(1), warm, control=True)[0].faults
    assert not {"drifted", "leaked"} & {*recorded(textured(1), warm, control=False)[0].faults}


def test_an_unchanged_image_is_a_right_control_and_an_ignored_edit() -> None:
    control, _ = recorded(textured(1), textured(1), control=True)
    assert (control.faults, control.region_share) == ([], 0.0)
    assert recorded(textured(1), textured(1), control=False)[0].faults == ["ignored"]


def test_of_tiny_images_nothing_is_measured_and_each_score_says_why() -> None:
    tiny = np.zeros((20, 64, 3), dtype=np.uint8)
    record, drawn = recorded(tiny, tiny, control=False)
    assert drawn is None
    assert (record.movement, record.inside, record.region_share) == (None, None, None)
    assert set(record.missing.values()) == {"image-too-small"}
    assert record.unmeasured == ["moved", "scaled", "ignored"]
    # It may still have another form.
    assert recorded(tiny, np.zeros((20, 80, 3), dtype=np.uint8), control=True)[0].faults == ["reshaped"]


def test_a_movement_cannot_be_told_of_an_image_without_an_edge() -> None:
    flat = np.full((64, 64, 3), 90, dtype=np.uint8)
    spot = flat.copy()
    spot[20:40, 20:40] = 200
    edit, _ = recorded(flat, spot, control=False)
    assert (edit.faults, edit.unmeasured, edit.movement) == ([], ["moved", "scaled"], None)
    assert edit.missing["registration"] == "no-texture"
    assert recorded(textured(1), edited(), control=False)[0].unmeasured == []
    # A visible change was asked for, and there is none: that is told, not missing.
    assert recorded(flat, flat, control=False)[0].faults == ["ignored"]


def test_of_an_edit_whose_region_was_given_what_leaks_out_of_it_is_a_fault() -> None:
    other = box(SIZE, slice(60, 90), slice(5, 35))
    right, _ = recorded(textured(1), edited(), control=False, region=REGION)
    wrong, _ = recorded(textured(1), edited(), control=False, region=other)
    assert right.faults == []
    assert right.region_share == pytest.approx(REGION.mean(), abs=0.01)
    assert wrong.faults == ["leaked", "ignored"]
