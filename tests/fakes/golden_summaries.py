"""Summaries that earlier code made, and what makes another one equal to them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest


def near(found: Any, known: Any, *, without: Collection[str] = (), path: str = "") -> None:
    """Numbers are equal to 1e-12, everything else exactly; fields in ``without`` are not compared."""
    if isinstance(known, dict):
        assert found.keys() - set(without) == known.keys() - set(without), path
        for name in known.keys() - set(without):
            near(found[name], known[name], without=without, path=f"{path}/{name}")
    elif isinstance(known, list):
        assert len(found) == len(known), path
        for place, (mine, other) in enumerate(zip(found, known, strict=True)):
            near(mine, other, without=without, path=f"{path}/{place}")
    elif isinstance(known, float):
        assert found == pytest.approx(known, rel=1e-12, abs=1e-12), path
    else:
        assert found == known, path
