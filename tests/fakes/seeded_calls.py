"""Calls whose seeds are caught: what a service is asked with, and what a generator or a module derives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from counterpose_gateway.runs import seeds


class Asked(Exception):
    """What a service was asked for; nothing is answered."""


def asked_of(call: Callable[[], Awaitable[object]]) -> list[int]:
    """The seeds that a service is asked with."""
    with pytest.raises(Asked) as raised:
        asyncio.run(call())  # type: ignore[arg-type]  # all are coroutines
    seeds_of: list[int] = raised.value.args[0]
    return seeds_of


def generators(call: Callable[[], object]) -> list[object]:
    """The seeds of the generators that a call makes."""
    made, drawing = list[object](), np.random.default_rng

    def noted(seed: Any) -> np.random.Generator:
        made.append(seed)
        return drawing(seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", noted)
        call()
    return made


def derived(module: object, call: Callable[[], object]) -> list[int]:
    """The seeds that a module derives in a call, in the order of their values."""
    made, derive = list[int](), seeds.derive_seed

    def noted(seed: int, *names: str | int) -> int:
        made.append(derive(seed, *names))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "derive_seed", noted)
        call()
    return sorted(set(made))
