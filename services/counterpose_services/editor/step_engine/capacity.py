"""How many rows a call holds: what calibration found, and less for as long as memory is short."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_services.batching.batch_size import BatchSizer


@dataclass(frozen=True)
class RowLimits:
    """The largest numbers of rows of a call: without a gradient, and with one, which needs more memory."""

    plain: int
    optimised: int

    @classmethod
    def of_batch(cls, batch: int) -> RowLimits:
        """Return the limits of a suite's batch: guidance doubles the rows of an image."""
        return cls(2 * batch, batch)


class Capacity:
    """The rows of the next call of each kind; halved when memory runs out, and doubled again later."""

    def __init__(self, limits: RowLimits) -> None:
        self._sizers = {False: BatchSizer(limits.plain), True: BatchSizer(limits.optimised)}

    def rows(self, *, optimised: bool) -> int:
        """Return how many rows a call holds now."""
        return self._sizers[optimised].size

    def fitted(self, rows: int, *, optimised: bool) -> None:
        """Take note of a call that fitted."""
        self._sizers[optimised].fit(rows)

    def exceeded(self, rows: int, *, optimised: bool) -> None:
        """Take note of a call that did not fit in memory."""
        self._sizers[optimised].shrink(rows)
