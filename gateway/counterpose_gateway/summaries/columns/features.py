"""Feature vectors of items on disk: a row each, read again for the few that a figure takes."""

from __future__ import annotations

import base64
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_gateway.summaries.columns.codes import NONE

BYTES_OF_A_NUMBER = 2
"""Half precision."""

_AT_ONCE = 4096
"""Rows that are in memory together."""


@dataclass(frozen=True)
class Vectors:
    """Width and row of a vector of each item, `NONE` without one."""

    width: Ints
    row: Ints

    @property
    def known(self) -> Flags:
        """Which items have one."""
        return np.asarray(self.row != NONE)


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Rows of one width: bytes in memory, or from ``offset`` on in an open file."""

    rows: int
    held: bytes | bytearray | None = None
    file: IO[bytes] | None = None
    offset: int = 0


class GrowingFeatures:
    """The vectors of a part in memory, each recorded one as a row of its width."""

    def __init__(self) -> None:
        self._held: dict[int, bytearray] = {}
        self._last: dict[str, tuple[Mapping[str, Any], tuple[int, int]]] = {}

    def add(self, name: str, document: Mapping[str, Any] | None) -> tuple[int, int]:
        """Keep a recorded vector; returns its width and its row, both `NONE` without one."""
        if document is None:
            return NONE, NONE
        # The items of a source follow each other and repeat its vector.
        last = self._last.get(name)
        if last is not None and last[0] == document:
            return last[1]
        width = int(document["width"])
        held = self._held.setdefault(width, bytearray())
        row = len(held) // (width * BYTES_OF_A_NUMBER)
        held += base64.b64decode(document["float16"])
        self._last[name] = (document, (width, row))
        return width, row

    def blocks(self) -> dict[int, FeatureBlock]:
        """Return the rows of each width."""
        return {
            width: FeatureBlock(len(held) // (width * BYTES_OF_A_NUMBER), held)
            for width, held in self._held.items()
        }


class FeatureRows:
    """Vectors in half precision, by width; files are closed with this object.

    Those that come in memory go to files without a name, so that a killed process leaves none.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, list[FeatureBlock]] = {}
        self._starts: dict[int, list[int]] = {}
        self._written: dict[int, IO[bytes]] = {}
        self._open: list[IO[bytes]] = []
        weakref.finalize(self, _close, self._open)

    def append(self, width: int, block: FeatureBlock) -> int:
        """Add rows of a width; returns the number of their first one."""
        starts = self._starts.setdefault(width, [0])
        blocks = self._blocks.setdefault(width, [])
        kept = block if block.held is None else self._in_file(width, block.rows, block.held)
        if kept.file is not None:
            self._open.append(kept.file)
        blocks.append(kept)
        starts.append(starts[-1] + block.rows)
        return starts[-2]

    def read(self, width: int, rows: Ints) -> Floats:
        """Return the vectors of these rows (n, width); zeros where a row is `NONE`."""
        found = np.zeros((len(rows), width))
        for start in range(0, len(rows), _AT_ONCE):
            self._fill(found[start : start + _AT_ONCE], width, rows[start : start + _AT_ONCE])
        return found

    def means_by(self, width: int, rows: Ints, groups: Ints, number: int) -> Floats:
        """Return the mean vector (number, width) of each group of rows; `NONE` counts as zeros.

        ``groups`` is the group of each row, from 0; every one has a row.
        """
        sums = np.zeros((number, width))
        for start in range(0, len(rows), _AT_ONCE):
            part = groups[start : start + _AT_ONCE]
            order = np.argsort(part, kind="stable")
            present, firsts = np.unique(part[order], return_index=True)
            vectors = self.read(width, rows[start : start + _AT_ONCE][order])
            sums[present] += np.add.reduceat(vectors, firsts, axis=0)
        return sums / np.bincount(groups, minlength=number)[:, None]

    def _in_file(self, width: int, rows: int, held: bytes | bytearray) -> FeatureBlock:
        file = self._written.get(width)
        if file is None:
            file = self._written[width] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        offset = file.tell()
        file.write(held)
        file.flush()
        return FeatureBlock(rows, file=file, offset=offset)

    def _fill(self, found: Floats, width: int, rows: Ints) -> None:
        known = np.flatnonzero(rows != NONE)
        if width not in self._blocks:
            return
        numbers = np.searchsorted(self._starts[width], rows[known], side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = known[numbers == number]
            stored = _mapped(self._blocks[width][number], width)
            found[chosen] = stored[rows[chosen] - self._starts[width][number]]


def _mapped(block: FeatureBlock, width: int) -> np.memmap[Any, np.dtype[np.float16]]:
    # Mapped again at each use: the pages that were looked at count as memory until then.
    shape = (block.rows, width)
    assert block.file is not None  # rows in memory were written by `FeatureRows.append`
    return np.memmap(block.file, dtype="<f2", mode="r", shape=shape, offset=block.offset)


def _close(files: Iterable[IO[bytes]]) -> None:
    for file in files:
        file.close()
