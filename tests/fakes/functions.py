"""Modules with a user-defined classifier, written for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

Write = Callable[[str], str]
"""Maps the text of a module with a function ``predict`` to its spec."""

LIGHT = """
import numpy
classes = ["dark", "light"]
input_size = (4, 6)
def predict(images):
    assert images.dtype == numpy.uint8 and images.shape[1:] == (4, 6, 3), images.shape
    light = images.mean(axis=(1, 2, 3)) / 255.0
    return numpy.stack([1 - light, light], axis=1)
"""
"""The mean lightness of an image."""

_numbers = count()


def writing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules into ``folder``, which Python searches until the test ends."""
    monkeypatch.syspath_prepend(str(folder))
    names: list[str] = []

    def write(text: str) -> str:
        # Python imports a name only once per process.
        names.append(f"written_model_{next(_numbers)}")
        (folder / f"{names[-1]}.py").write_text(text, encoding="utf-8")
        return f"py:{names[-1]}:predict"

    yield write
    for name in names:
        sys.modules.pop(name, None)
