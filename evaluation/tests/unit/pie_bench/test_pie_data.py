"""PIE-Bench's format: masks as runs, the order of pairs, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from evaluation.pie_bench.data import MAPPING, SIDE, Pair, decoded, encoded, read_pairs
from evaluation.pie_bench.world import write


def test_runs_are_starts_and_lengths_row_by_row() -> None:
    mask = decoded([SIDE * 10 + 20, 3, SIDE * 11 + 20, 1])
    inner = mask[1:-1, 1:-1]
    assert np.argwhere(inner).tolist() == [[9, 19], [9, 20], [9, 21], [10, 19]]
    # The published evaluation adds the border.
    assert mask.sum() == 4 + 4 * (SIDE - 1)


def test_a_run_beyond_the_last_pixel_is_cut() -> None:
    assert decoded([SIDE * SIDE - 2, 1000]).sum() == 4 * (SIDE - 1)


def test_a_small_mask_is_the_same_after_it_was_enlarged_and_reduced(tmp_path: Path) -> None:
    small = np.random.default_rng(0).random((64, 64)) < 0.4
    pair = Pair("1", "1", tmp_path, "", "", encoded(small))
    assert np.array_equal(pair.mask((64, 64)), small)
    assert pair.mask((SIDE, SIDE)).shape == (SIDE, SIDE)


def test_a_pixel_is_in_the_mask_if_the_larger_half_of_it_is(tmp_path: Path) -> None:
    whole = np.zeros((SIDE, SIDE), dtype=np.bool_)
    # All but its middle, and its middle alone.
    whole[80:88, 160:168] = True
    whole[83:86, 163:166] = False
    whole[163:166, 163:166] = True
    small = Pair("1", "1", tmp_path, "", "", encoded(whole)).mask((64, 64))
    assert np.argwhere(small).tolist() == [[10, 20]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of few pairs."""
    folder = tmp_path_factory.mktemp("world")
    write(folder, 31)
    return folder


def test_the_first_pairs_have_every_type_in_its_share(world: Path) -> None:
    pairs = read_pairs(world)
    assert Counter(pair.type_id for pair in pairs[:16]) == {
        "0": 4,
        "1": 2,
        "2": 2,
        "3": 2,
        "4": 1,
        "6": 1,
        "8": 2,
        "9": 2,
    }
    assert all(pair.target is not None for pair in pairs)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"editing_type_id": "12"}, "has the type '12'"),
    "half a run": ({"mask": [1, 2, 3]}, "no list of starts and lengths"),
    "a negative start": ({"mask": [-1, 2]}, "no list of starts and lengths"),
    "no mask": ({"mask": None}, "is not of PIE-Bench's format"),
    "no image": ({"image_path": "none.png"}, "is missing"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_entry_of_another_form_is_refused_by_its_id(world: Path, wrong: str, tmp_path: Path) -> None:
    changes, told = WRONG[wrong]
    entries = json.loads((world / MAPPING).read_bytes())
    entries["000000000000"] |= changes
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "annotation_images").symlink_to(world / "annotation_images")
    (folder / MAPPING).write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(InvalidRequest, match="000000000000") as refused:
        read_pairs(folder)
    assert told in refused.value.detail


def test_a_folder_without_a_mapping_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="make one with"):
        read_pairs(tmp_path)


def test_brackets_around_changed_words_are_no_words(world: Path, tmp_path: Path) -> None:
    entries = json.loads((world / MAPPING).read_bytes())
    entries["000000000000"]["editing_prompt"] = "a [green] bus"
    (tmp_path / "annotation_images").symlink_to(world / "annotation_images")
    (tmp_path / MAPPING).write_text(json.dumps(entries), encoding="utf-8")
    assert "a green bus" in {pair.edited_caption for pair in read_pairs(tmp_path)}
