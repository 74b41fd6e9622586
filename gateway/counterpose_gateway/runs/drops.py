"""What a step of a method drops of the items that it is given: it returns what it kept, and its `Drops`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from counterpose_core.contract.runs import Provenance
from counterpose_core.errors import CounterposeError, LeaseLost
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.records.outcomes import Filtered


class Drops:
    """Items that a step drops, in order, each filtered or with its error; of an item, the first counts."""

    def __init__(self) -> None:
        self.ended: list[tuple[LeasedItem, Filtered | CounterposeError]] = []

    def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Drop an item for a reason; ``result`` is its best variant, if any."""
        self.ended.append((item, Filtered(reason=reason, detail=detail, result=result)))

    @contextmanager
    def on_error(self, items: Iterable[LeasedItem]) -> Iterator[None]:
        """Drop these items, and no others, if the block fails."""
        try:
            yield
        # Another worker holds the item now and records it; here it is not a failure.
        except LeaseLost:
            raise
        except CounterposeError as error:
            self.ended += [(item, error) for item in items]
