"""Stamps of items: what in the ledger changes with each outcome, so that kept columns can be checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from counterpose_core.statistics.coded import Floats, Ints
from counterpose_core.types import FINAL_ITEM_STATES, ItemState
from counterpose_gateway.records.recorded_items import Stamp

_STATES: tuple[ItemState, ...] = get_args(ItemState)
_CODES = {state: code for code, state in enumerate(_STATES)}
_FINAL = np.array([_CODES[state] for state in sorted(FINAL_ITEM_STATES)])


@dataclass(frozen=True, eq=False)
class Stamps:
    """The stamps of items that follow each other in planned order, as columns."""

    ordinal: Ints
    state: Ints
    fence: Ints
    due_at: Floats

    @classmethod
    def of(cls, stamps: Iterable[Stamp]) -> Stamps:
        """Return stamps as columns."""
        coded = [(each.ordinal, _CODES[each.state], each.fence, each.due_at) for each in stamps]
        columns = list(zip(*coded, strict=True)) or [(), (), (), ()]
        kinds = (np.int32, np.int8, np.int32, np.float64)
        return cls(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))

    def part(self, first: int, length: int) -> Stamps:
        """Those of ``length`` items from the place ``first`` on, or of as many as there are."""
        places = slice(first, first + length)
        return Stamps(self.ordinal[places], self.state[places], self.fence[places], self.due_at[places])

    @property
    def columns(self) -> dict[str, Ints | Floats]:
        """The columns by name."""
        return {
            "ordinal": self.ordinal, "state": self.state, "fence": self.fence, "due_at": self.due_at
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self.ordinal)

    @property
    def all_ended(self) -> bool:
        """Whether every item has ended; one that failed or was cancelled may be opened again."""
        return bool(np.isin(self.state, _FINAL).all())

    def equal(self, other: Stamps) -> bool:
        """Whether they are the same stamps of the same places."""
        mine, others = self.columns, other.columns
        return all(np.array_equal(mine[name], others[name]) for name in mine)
