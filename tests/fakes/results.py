"""Finished items with chosen predictions, for tests of summary and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.scorer import EditScores
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import Cost, EditType, ItemKind
from counterpose_gateway.methods.stress_test.plan import resolve
from fakes.runs import stress_test_request
from fakes.world import FakeWorld, Shown, fake_dataset, fake_suite

CAPTION = "a photo of a red sled on the grass"
EDITED: dict[EditType, tuple[str, int, str, str]] = {
    "subject": ("a photo of a broken red sled on the grass", 4, "", "broken"),
    "object": ("a photo of a red sled on the grass with a dog", 9, "", "with a dog"),
    "background": ("a photo of a red sled on the snow", 8, "grass", "snow"),
    "adjective": ("a photo of a blue sled on the grass", 4, "red", "blue"),
    "domain": ("a painting of a red sled on the grass", 1, "photo", "painting"),
}


def fake_config(**changes: object) -> StressTestConfig:
    """A configuration as planning resolves it."""
    return resolve(stress_test_request(**changes), dataset=fake_dataset(4), suite=fake_suite())


def prediction(p_true: float, label: str = "sled") -> Scored:
    """The true class and one rival: rank 1 from 0.5 on, and rank 6 below 0.05."""
    shown = sorted([(label, p_true), ("boat", 1.0 - p_true)], key=lambda pair: -pair[1])
    rank = 1 if p_true >= 0.5 else 2 if p_true >= 0.05 else 6
    return ranked(p_true, rank, shown)


class Ledgered:
    """Builds the items of a finished run one by one."""

    def __init__(self, world: FakeWorld | None = None) -> None:
        self.world = world or FakeWorld()
        self.items: list[Item] = []

    def add(
        self,
        source: str,
        kind: ItemKind = "edit",
        *,
        edit_type: EditType | None = None,
        before: Mapping[str, float] | None = None,
        after: Mapping[str, float] | None = None,
        label: str = "sled",
        **changes: object,
    ) -> Item:
        """Add an item; it is done unless ``changes`` say otherwise, with p(true) as given for each model."""
        before = before or {"steady": 0.9, "leaning": 0.9}
        result = self._result(source, edit_type, before, after or before, label)
        known = {"id": f"item-{len(self.items)}", "ordinal": len(self.items), "state": "done", "attempts": 1}
        item = Item.model_validate(
            {
                **known,
                "kind": kind,
                "item_group": source,
                "source_image": self.world.add(Shown(label, CAPTION), source),
                "label": label,
                "edit_type": edit_type,
                "result": result,
                **changes,
            }
        )
        self.items.append(item)
        return item

    def _result(
        self,
        source: str,
        edit_type: EditType | None,
        before: Mapping[str, float],
        after: Mapping[str, float],
        label: str,
    ) -> ItemResult:
        caption, start, removed, added = EDITED[edit_type] if edit_type else (CAPTION, 0, "", "")
        return ItemResult(
            image=self.world.add(Shown(label, caption), source, len(self.items)),
            caption=CAPTION,
            edited_caption=caption if edit_type else None,
            removed=_spans(removed, start),
            added=_spans(added, start),
            strength=0.4 if edit_type else None,
            scores=SCORES if edit_type else None,
            predictions={name: prediction(p, label) for name, p in after.items()},
            original_predictions={name: prediction(p, label) for name, p in before.items()},
            psnr_db=None if edit_type else 30.0,
            cost=Cost(unet_evaluations=10, seconds=0.5),
            service_seconds={"editor": 1.5, "scorer": 0.25},
        )

    def stress(self, sources: Sequence[str], p_after: Mapping[EditType, Mapping[str, float]]) -> None:
        """Give each source its reconstruction, its placebo and one edit of each given type."""
        for source in sources:
            self.add(source, "reconstruction")
            self.add(source, "placebo")
            for edit_type, after in p_after.items():
                self.add(source, edit_type=edit_type, after=after)


SCORES = EditScores(
    direction=0.4,
    image_image=0.8,
    text_original=0.3,
    text_edited=0.3,
    text_edited_source=0.2,
    text_original_edit=0.2,
)


def _spans(text: str, start: int) -> list[WordSpan]:
    return [WordSpan(words=text.split(), start=start)] if text else []
