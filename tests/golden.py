"""Golden files: computed numbers that other code wrote down, and how near to them ours must come.

Every comparison with such a file goes through the fixture `golden`, which marks its test `floats`: the last
digits differ between processors, so `make floats` runs it under several kernel selections.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.reference.same_answers import FITS, FLOAT32


class Golden:
    """The golden files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        """Return what a file of JSON holds."""
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def compare(self, found: Any, known: Any, *, without: Collection[str] = (), path: str = "") -> None:
        """Assert that floats agree as docs/design/determinism.md promises, and everything else exactly.

        Args:
            found: the document, or an array or tensor, that our code computed.
            known: what the golden file holds, of the same form.
            without: fields that are not compared, at any depth.
            path: where in the document both stand, for the message.
        """
        if isinstance(known, dict):
            assert found.keys() ^ known.keys() <= set(without), f"{path}: {found.keys() ^ known.keys()}"
            for name in known.keys() - set(without):
                self.compare(found[name], known[name], without=without, path=f"{path}/{name}")
        elif isinstance(known, list):
            assert len(found) == len(known), path
            for place, pair in enumerate(zip(found, known, strict=True)):
                self.compare(*pair, without=without, path=f"{path}/{place}")
        elif isinstance(known, float):
            assert found == pytest.approx(known, rel=FITS, abs=FLOAT32), path
        elif hasattr(known, "__array__"):
            _compare_arrays(np.asarray(found), np.asarray(known), path)
        else:
            assert found == known, path


def _compare_arrays(found: np.ndarray[Any, Any], known: np.ndarray[Any, Any], path: str) -> None:
    assert (found.shape, found.dtype.kind) == (known.shape, known.dtype.kind), path
    if known.dtype.kind == "f":
        np.testing.assert_allclose(found, known, rtol=FITS, atol=FLOAT32, err_msg=path)
    else:
        np.testing.assert_array_equal(found, known, path)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files beside the test."""
    return Golden(request.path.parent)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that compares with golden files, before pytest selects by markers."""
    if "golden" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.floats)
