"""Items as they are recorded: what is read of a large run, without a model for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from counterpose_core.contract.runs import RunItem
from counterpose_core.types import BlobRef, EditType, ItemKind, ItemState


class RecordedItem(NamedTuple):
    """An item whose result and instruction are documents, as a worker or a planner wrote them."""

    id: str
    kind: ItemKind
    item_group: str
    source_image: BlobRef
    label: str
    edit_type: EditType | None
    slot: int
    stage: int
    state: ItemState
    reason: str | None
    code: str | None
    labels: Sequence[str] | None
    instruction: Mapping[str, Any] | None
    result: Mapping[str, Any] | None

    @classmethod
    def of(cls, item: RunItem[Any]) -> Self:
        """Return an item as the ledger records it."""
        document = item.model_dump(mode="json")
        return cls._make(document.get(name) for name in cls._fields)


class Stamp(NamedTuple):
    """The place of an item, its state, the number of its leases and the lease time at which the last ends.

    An outcome is recorded once for a lease, so that equal stamps are those of equal outcomes. The lease time
    tells a ledger that was restored, and went on in another way, from the one before.
    """

    ordinal: int
    state: ItemState
    fence: int
    due_at: float
