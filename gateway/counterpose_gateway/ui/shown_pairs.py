"""Image pairs as the pages show them: original, control and edit, with what a classifier says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.findings import Finding, FindingPair
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.errors import NotFound
from counterpose_gateway.methods.stress_test.report.captions import Segment, mark
from counterpose_gateway.methods.stress_test.report.findings import Answer
from counterpose_gateway.reports.numbers import percent, signed
from counterpose_gateway.routes.context import GatewayContext


@dataclass(frozen=True)
class ShownImage:
    """One image: its address, the item that made it (none made an original), and the answer to it."""

    title: str
    image: str
    item: str | None
    answer: Answer | None
    caption: str
    p_true: str = ""

    @property
    def small(self) -> str:
        """The address of the image at the size of a page."""
        return f"/ui/images/{self.image}.webp"

    @property
    def page(self) -> str | None:
        """The address of the page of its item."""
        return None if self.item is None else item_address(self.item)


@dataclass(frozen=True)
class ShownPair:
    """An original with what was made of it; the captions mark the words that change."""

    label: str
    kind: str
    images: list[ShownImage]
    caption: list[Segment]
    edited_caption: list[Segment]
    loss: str = ""


def run_of(item_id: str) -> str:
    """The id of the run that an item belongs to; the pairs of a finding may come from several runs."""
    return item_id.rpartition(".")[0]


def item_address(item_id: str) -> str:
    """The address of an item's page."""
    return f"/ui/runs/{run_of(item_id)}/items/{item_id}"


def finding_pair(finding: Finding, pair: FindingPair, context: GatewayContext) -> ShownPair | None:
    """A pair of a finding with its control, or None if its item is gone or has no answer."""
    edit = _result(pair.edit, context)
    if edit is None or finding.classifier not in edit[1].predictions:
        return None
    control = None if pair.control is None else _result(pair.control, context)
    shown = pair_of(*edit, finding.classifier, control=control)
    return ShownPair(**vars(shown) | {"loss": signed(-pair.loss, 2)})


def pair_of(
    item: Item, result: ItemResult, classifier: str, *, control: tuple[Item, ItemResult] | None = None
) -> ShownPair:
    """An original and its edit with the answers of one classifier, and the control between them."""
    images = [_original(item, result, classifier)]
    if control is not None:
        images.append(_made("control: the same meaning", *control, classifier))
    images.append(_made("edited", item, result, classifier))
    return ShownPair(
        label=item.label,
        kind=item.edit_type or item.kind,
        images=images,
        caption=mark(result.caption, result.removed),
        edited_caption=mark(result.edited_caption or result.caption, result.added),
    )


def newest_pairs(items: Sequence[Item], classifiers: Sequence[str]) -> list[ShownPair]:
    """The newest edits of a run, each with the classifier that loses most."""
    shown = []
    for item in items:
        result = item.result
        if result is None or not result.predictions:
            continue
        known = [name for name in classifiers if name in result.predictions] or list(result.predictions)
        shown.append(pair_of(item, result, min(known, key=lambda name: _change(result, name))))
    return shown


def _change(result: ItemResult, name: str) -> float:
    before = result.original_predictions.get(name)
    return result.predictions[name].p_true - (0.0 if before is None else before.p_true)


def _result(item_id: str, context: GatewayContext) -> tuple[Item, ItemResult] | None:
    try:
        item = context.ledger.items.get(run_of(item_id), item_id, Item)
    except NotFound:
        return None
    return None if item.result is None else (item, item.result)


def _original(item: Item, result: ItemResult, classifier: str) -> ShownImage:
    said = result.original_predictions.get(classifier)
    return ShownImage(
        title="original",
        image=item.source_image,
        item=None,
        answer=None if said is None else Answer.of(said),
        caption=result.caption,
        p_true="" if said is None else percent(said.p_true),
    )


def _made(title: str, item: Item, result: ItemResult, classifier: str) -> ShownImage:
    said = result.predictions.get(classifier)
    return ShownImage(
        title=title,
        image=result.image,
        item=item.id,
        answer=None if said is None else Answer.of(said),
        caption=result.edited_caption or result.caption,
        p_true="" if said is None else percent(said.p_true),
    )
