"""Feature vectors of items on disk: a row each, read again for the few that a figure takes."""

from __future__ import annotations

import base64
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from faultline_core.statistics.coded import Flags, Floats, Ints
from faultline_gateway.columns.codes import NONE

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


class FeatureRows:
    """Vectors in half precision, by width; the files have no name, so that a killed process leaves none."""

    def __init__(self) -> None:
        self._files: dict[int, IO[bytes]] = {}
        self._counts: dict[int, int] = {}
        weakref.finalize(self, _close, self._files)

    def add(self, document: Mapping[str, Any] | None) -> tuple[int, int]:
        """Keep a recorded vector; returns its width and its row, both `NONE` without one."""
        if document is None:
            return NONE, NONE
        width = int(document["width"])
        file = self._files.get(width)
        if file is None:
            file = self._files[width] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        file.write(base64.b64decode(document["float16"]))
        row = self._counts.get(width, 0)
        self._counts[width] = row + 1
        return width, row

    def read(self, width: int, rows: Ints) -> Floats:
        """Return the vectors of these rows (n, width); zeros where a row is `NONE`."""
        found = np.zeros((len(rows), width))
        if width in self._files and len(rows):
            file = self._files[width]
            file.flush()
            # Mapped again for each part: the pages that were looked at count as memory until then.
            for start in range(0, len(rows), _AT_ONCE):
                part = rows[start : start + _AT_ONCE]
                stored = np.memmap(file, dtype="<f2", mode="r", shape=(self._counts[width], width))
                found[start : start + _AT_ONCE][part != NONE] = stored[part[part != NONE]]
        return found

    def mean(self, width: int, rows: Ints) -> Floats:
        """Return the mean vector of these rows (width,), of which there may be very many."""
        parts = range(0, len(rows), _AT_ONCE)
        sums = [self.read(width, rows[start : start + _AT_ONCE]).sum(axis=0) for start in parts]
        return np.asarray(np.sum(sums, axis=0) / len(rows))


def _close(files: Mapping[int, IO[bytes]]) -> None:
    for file in files.values():
        file.close()
