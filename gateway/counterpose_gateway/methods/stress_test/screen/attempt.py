"""One attempt at the items of a source of a stress test, which every step of LANCE takes."""

from __future__ import annotations

from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.types import EditType, ItemKind
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems
from counterpose_gateway.runs.stores import Store


class Attempt(OpenItems):
    """One attempt at the items of a source in a stress test."""

    def __init__(self, group: LeasedGroup, config: StressTestConfig, record: Recorder, store: Store) -> None:
        super().__init__(group, record, store)
        self.config = config
        self.is_last = all(item.attempt >= MAX_ATTEMPTS for item in group.items)

    def open_item(self, kind: ItemKind) -> LeasedItem | None:
        """The open item of a kind that each source has once."""
        return next((item for item in self.open if item.kind == kind), None)

    def edit_items(self, edit_type: EditType | None, slot: int) -> list[LeasedItem]:
        """The open item of an edit slot (None: the placebo), or nothing if another worker holds it."""
        kind: ItemKind = "placebo" if edit_type is None else "edit"
        wanted = (kind, edit_type, slot)
        return [item for item in self.open if (item.kind, item.edit_type, item.slot) == wanted]
