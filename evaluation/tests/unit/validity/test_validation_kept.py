"""Stored results are computed once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from evaluation.validity.kept import kept, kept_array

NUMBERS = TypeAdapter(list[int])


def refuse() -> list[int]:
    raise AssertionError("made again")


def test_a_stored_result_is_computed_once_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "run" / "piece.json"
    assert kept(path, NUMBERS, lambda: [1, 2]) == [1, 2]
    assert kept(path, NUMBERS, refuse) == [1, 2]


def test_a_failed_result_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "piece.json"
    with pytest.raises(AssertionError, match="made again"):
        kept(path, NUMBERS, refuse)
    assert kept(path, NUMBERS, lambda: [3]) == [3]


def test_an_array_is_computed_once_and_then_read(tmp_path: Path) -> None:
    path = tmp_path / "truth" / "table.npy"
    made = kept_array(path, lambda: np.arange(3.0))
    again = kept_array(path, lambda: np.zeros(3))
    assert made.tolist() == again.tolist() == [0.0, 1.0, 2.0]
