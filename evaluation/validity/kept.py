"""Finished pieces on disk: each is made once and read afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from counterpose_miniature.training.stage import save_array, write_atomically

T = TypeVar("T")
S = TypeVar("S", bound=np.generic)


def kept(path: Path, kind: TypeAdapter[T], make: Callable[[], T]) -> T:
    """Read a piece, or make it and keep it; a half-written piece is never read."""
    if path.exists():
        return kind.validate_json(path.read_bytes())
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, kind.dump_json(made, by_alias=True))
    return made


def kept_array(path: Path, make: Callable[[], NDArray[S]]) -> NDArray[S]:
    """Read an array, or make it and keep it."""
    if path.exists():
        found: NDArray[S] = np.load(path)
        return found
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_array(path, made)
    return made
