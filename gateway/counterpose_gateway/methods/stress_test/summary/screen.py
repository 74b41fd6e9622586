"""The screen of a stress test: groups of edits by words, and what later stages are planned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.statistics.coded import Flags, Ints
from counterpose_core.stress_test.insights import group_by_words
from counterpose_core.stress_test.screening import Change
from counterpose_core.types import EditType
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import Suspicion
from counterpose_gateway.methods.stress_test.observations.observations import Observation
from counterpose_gateway.methods.stress_test.observations.observed_items import (
    ObservedItems,
    ScreenedGroup,
    SourceControls,
    group_of,
)
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.records.recorded_items import RecordedItem

_GATE = "gate-"


@dataclass(frozen=True, eq=False)
class SeenItems:
    """The items of a run as stages are planned from them.

    ``captioned`` are the sources of the screen that have a caption, each by one of its items.
    """

    columns: ItemColumns
    captioned: Sequence[Observation]

    @classmethod
    def of(cls, items: Iterable[Item] | Iterable[RecordedItem], config: StressTestConfig) -> SeenItems:
        """Read them one by one; memory grows by some hundred bytes an item."""
        groups = config.groups
        captions: dict[str, RecordedItem] = {}

        def noted() -> Iterable[RecordedItem]:
            for each in items:
                item = each if isinstance(each, RecordedItem) else RecordedItem.of(each)
                yield item
                caption = (item.result or {}).get("caption")
                if item.stage == 1 and caption:
                    captions[item.item_group] = item._replace(result={"caption": caption})

        columns = columns_of(noted(), groups)
        return cls(columns, [_captioned(item, groups) for item in captions.values()])

    @cached_property
    def later(self) -> Sequence[Observation]:
        """The items of stages after the screen: as many as the budget of the confirmation allows."""
        return list(ObservedItems(self.columns, np.flatnonzero(self.columns.stage > 1)))

    def share_of_pairs(self, edit_type: EditType) -> float:
        """Return the share of fresh images or draws whose pair can be expected to be kept, in (0, 1).

        It is the share, in all stages so far, of the edits of this type at the gate that pass it and whose
        own placebo was kept, with one imagined pair that was kept and one that was not.
        """
        columns = self.columns
        edits = columns.of("kind", "edit") | columns.of("kind", "confirmation")
        gated = np.flatnonzero(edits & columns.of("edit_type", edit_type) & (columns.done | self._at_gate))
        whole = columns.done[gated] & np.isin(self._place[gated], self._with_placebo)
        return (1 + int(whole.sum())) / (2 + len(gated))

    @cached_property
    def _at_gate(self) -> Flags:
        reasons = self.columns.names["reason"].names
        codes = [code for code, reason in enumerate(reasons) if reason.startswith(_GATE)]
        return np.isin(self.columns.reason, codes)

    @cached_property
    def _place(self) -> Ints:
        """A number of each item's source and draw."""
        columns = self.columns
        # An item without an instruction has the code -1 and no draw; draws count from 1.
        draws = [0, *(each.draw or 0 for each in columns.instructions)]
        distinct, codes = np.unique(draws, return_inverse=True)
        return columns.source.astype(np.int64) * len(distinct) + codes[columns.instruction + 1]

    @cached_property
    def _with_placebo(self) -> Ints:
        return self._place[self.columns.of("kind", "placebo") & self.columns.done]


def screened_groups(columns: ItemColumns, classifiers: Iterable[str]) -> dict[Suspicion, ScreenedGroup]:
    """Group the screen's edits by classifier and words; groups that name no words are left out."""
    screened = columns.screened & columns.done
    places = [np.flatnonzero(screened & columns.of("kind", kind)) for kind in ("reconstruction", "placebo")]
    controls = SourceControls.of(columns, *places)
    groups: dict[Suspicion, ScreenedGroup] = {}
    for classifier in classifiers:
        for group in group_by_words(Evidence.of(columns, classifier).effects, least_sources=1):
            of_group, said = group.pattern, group.spoken
            if of_group.removed or of_group.added:
                change = Change(of_group.object_class, of_group.edit_type, of_group.removed, of_group.added)
                words = said.removed, said.added
                groups[classifier, change] = group_of(
                    classifier, change, words, columns, group.effects.at, controls
                )
    return groups


def _captioned(item: RecordedItem, groups: Mapping[str, str]) -> Observation:
    return Observation(
        id=item.id,
        kind=item.kind,
        source=item.item_group,
        image=item.source_image,
        label=item.label,
        edit_type=item.edit_type,
        slot=item.slot,
        stage=item.stage,
        state=item.state,
        reason=item.reason,
        caption=None if item.result is None else item.result["caption"],
        removed="",
        added="",
        after={},
        before={},
        instruction=None,
        unit=groups.get(item.item_group, item.item_group),
        mask=(item.instruction or {}).get("mask"),
        labels=item.labels,
    )
