"""Feature vectors of items on disk: a row each, read again for the few that a figure takes."""

from __future__ import annotations

import base64
import tempfile
import weakref
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from faultline_core.statistics.coded import Floats, Ints
from faultline_gateway.methods.stress_test.columns.codes import NONE


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
            stored = np.memmap(file, dtype="<f2", mode="r", shape=(self._counts[width], width))
            there = rows != NONE
            found[there] = stored[rows[there]]
        return found


def _close(files: Mapping[int, IO[bytes]]) -> None:
    for file in files.values():
        file.close()
