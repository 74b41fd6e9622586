"""Cells of a benchmark: the keys that the ledger groups by, and parsing them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpose_core.contract.shift_benchmarks import ImageSourceOrReal
from counterpose_gateway.methods.shift_benchmark.cells import Cell


@given(
    condition=st.integers(0, 9999),
    class_index=st.integers(0, 99_999),
    image_source=st.sampled_from(get_args(ImageSourceOrReal)),
    chunk=st.integers(0, 9999),
)
def test_a_cell_round_trips_through_its_key(
    condition: int, class_index: int, image_source: ImageSourceOrReal, chunk: int
) -> None:
    cell = Cell(condition, class_index, image_source, chunk)
    assert Cell.of(cell.item_group) == cell
    assert len(cell.item_group) <= 64


@pytest.mark.parametrize("name", ["", "source-1", "s0000.c00000.nowhere.0000", "s0.c0.token.0"])
def test_an_invalid_cell_key_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no cell"):
        Cell.of(name)
