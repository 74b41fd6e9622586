"""Columns of some items in planned order, and the joining of such parts to the columns of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpose_gateway.summaries.columns.codes import NONE, Codes
from counterpose_gateway.summaries.columns.features import FeatureBlock, FeatureRows

PART = 4096
"""Places of a part: those of part k begin at k times as many, whatever the parts are read from."""

Column = NDArray[Any]


def kind_of(column: str) -> str:
    """Return what a column holds: one such as ``p_before:NAME`` is of the kind ``p_before``."""
    return column.partition(":")[0]


def name_of(column: str) -> str:
    """Return whose column it is: NAME of ``p_before:NAME``."""
    return column.partition(":")[2]


@dataclass(frozen=True, eq=False)
class Part:
    """Items that follow each other in planned order.

    ``numbers``: equally long columns. A column of codes has its strings in the table of its method's choice;
    ``row:NAME`` numbers vectors of the width in ``width:NAME`` in ``features``.
    ``totals``: what adds up over the items, as a document in JSON.
    """

    length: int
    numbers: Mapping[str, Column]
    tables: Mapping[str, Sequence[str]]
    totals: Mapping[str, Any]
    features: Mapping[int, FeatureBlock]


class Joining:
    """Columns that grow by parts; codes and rows of each part are numbered anew.

    Strings keep the order in which they first occur, so that one part of all items gives the same columns.
    """

    def __init__(self, tables: Mapping[str, str], empty: Callable[[str], float], expected: int = 0) -> None:
        """Begin without items.

        Args:
            tables: for each kind of column with codes, the name of its table.
            empty: the number that items without one have in a column of this kind.
            expected: how many items will probably come; their memory is taken at once.
        """
        self._tables = tables
        self._empty = empty
        self._expected = expected
        self._numbers: dict[str, Column] = {}
        self.codes: dict[str, Codes] = {}
        self.features = FeatureRows()
        self.length = 0

    def add(self, part: Part) -> None:
        """Add the items of the next part."""
        codes = {name: self._renumbered(name, strings) for name, strings in part.tables.items()}
        starts = {width: self.features.append(width, block) for width, block in part.features.items()}
        end = self.length + part.length
        for column, numbers in part.numbers.items():
            held = self._room(column, numbers.dtype, end)[self.length : end]
            kind = kind_of(column)
            if kind in self._tables:
                held[:] = codes[self._tables[kind]][numbers]
            elif kind == "row":
                held[:] = _moved(numbers, part.numbers[f"width:{name_of(column)}"], starts)
            else:
                held[:] = numbers
        self.length = end

    def column(self, name: str) -> Column:
        """Return a column of all items so far."""
        numbers = self._room(name, self._numbers[name].dtype, self.length)
        return numbers[: self.length]

    @property
    def plain(self) -> list[str]:
        """The names of the columns of which there is one each."""
        return [column for column in self._numbers if not name_of(column)]

    def named(self, kind: str) -> list[str]:
        """Return whose columns of this kind there are, in the order in which they came."""
        return [name_of(column) for column in self._numbers if kind_of(column) == kind]

    def _renumbered(self, table: str, strings: Sequence[str]) -> Column:
        """The new code of each old one; that of `NONE` comes last, where its index leads."""
        known = self.codes.setdefault(table, Codes())
        return np.array([*(known.add(string) for string in strings), NONE], dtype=np.int32)

    def _room(self, column: str, dtype: np.dtype[Any], length: int) -> Column:
        held = self._numbers.get(column)
        if held is None or len(held) < length:
            room = max(length, self._expected, 0 if held is None else len(held) + len(held) // 2)
            grown = np.full(room, self._empty(kind_of(column)), dtype=dtype)
            if held is not None:
                grown[: len(held)] = held
            held = self._numbers[column] = grown
        return held


def _moved(rows: Column, widths: Column, starts: Mapping[int, int]) -> Column:
    moved = rows.copy()
    for width, start in starts.items():
        moved[widths == width] += start
    return moved
