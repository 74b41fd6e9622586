"""``/ui/runs/{id}/items``: what a run made, one page of items after another, and each item on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from counterpose_core.contract.gates import GateItem, GateResult
from counterpose_core.contract.recipes import IDENTITY, PLACEBO
from counterpose_core.contract.runs import ItemResult, RunItem, TransformedImage
from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.served_images import seed_of
from counterpose_core.contract.shift_benchmarks import ImageResult
from counterpose_core.types import ItemState
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.report.captions import mark
from counterpose_gateway.methods.stress_test.transforms.pairs import change_of
from counterpose_gateway.routes.context import After, Context
from counterpose_gateway.routes.runs import ItemsInState, ItemsOfClass, ItemsOfKind
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.ui.environment import PageRoute, page
from counterpose_gateway.ui.shown_run import ShownRun

router = APIRouter(prefix="/ui/runs/{run_id}/items", route_class=PageRoute)

ITEMS_OF_A_PAGE = 48


@dataclass(frozen=True)
class ShownItem:
    """An item with the images that a page may show of it."""

    item: RunItem[Any]

    @property
    def image(self) -> str | None:
        """The image that it made; one that was dropped as objectionable is not shown."""
        result = self.item.result
        is_shown = (
            isinstance(result, ItemResult | ImageResult | SampleResult) and self.item.reason != OBJECTIONABLE
        )
        return result.image if is_shown and result is not None else None

    @property
    def difference(self) -> str | None:
        """The map of what changed in the image that is shown, if it was measured."""
        preserved = getattr(self.item.result, "preservation", None)
        return None if preserved is None or self.image is None else preserved.map

    @property
    def recipes(self) -> list[tuple[str, str, Mapping[str, Scored]]]:
        """What operations made of the photograph: the title and address of each image, and the answers."""
        item, told = self.item, getattr(self.item, "instruction", None)
        if isinstance(item, GateItem) and told is not None and told.control is not None:
            result = item.result or GateResult()
            made = [("nothing changed", told.control, result.original_predictions)]
            made += [(told.change, told.image, result.predictions)]
        else:
            made = [
                (_title(each), each.recipe, each.predictions)
                for each in getattr(item.result, "transformed", [])
            ]
        return [
            (title, f"/ui/images/made.webp?{urlencode({'recipe': recipe})}", said)
            for title, recipe, said in made
        ]

    @property
    def captions(self) -> tuple[Any, Any] | None:
        """The captions of the original and of the edit, with the words that change marked."""
        result = self.item.result
        if not isinstance(result, ItemResult):
            return None
        edited = result.edited_caption
        return (mark(result.caption, result.removed), None if edited is None else mark(edited, result.added))

    @property
    def predictions(self) -> list[tuple[str, Scored | None, Scored | None]]:
        """Each classifier's answers to the original and to the image that was made."""
        result = self.item.result
        after: Mapping[str, Scored] = getattr(result, "predictions", {})
        before: Mapping[str, Scored] = getattr(result, "original_predictions", {})
        return [(name, before.get(name), after.get(name)) for name in sorted({*after, *before})]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Where the item comes from, and what it took."""
        item, result = self.item, self.item.result
        facts = [
            ("item", item.id), ("kind", item.edit_type or item.kind), ("class", item.label),
            ("phase", str(item.stage)), ("attempts", str(item.attempts)),
            ("original", item.source_image),
        ]  # fmt: skip
        if result is not None:
            facts += [(f"weights of the {name}", weights) for name, weights in sorted(result.models.items())]
            seconds = {name: f"{taken:.2f} s" for name, taken in result.service_seconds.items()}
            facts += [(f"time in the {name}", taken) for name, taken in sorted(seconds.items())]
        if (served := getattr(result, "served", None)) is not None:
            facts.append(("made by the server", f"{served.model} at {served.server}"))
        if isinstance(result, ItemResult):
            facts += _scores(result)
        if isinstance(result, SampleResult) and result.caption:
            facts.append(("caption", result.caption))
        if isinstance(result, ImageResult | SampleResult) and result.prompt:
            facts.append(("prompt", result.prompt))
            if (seed := seed_of(result.seed, result.served)) is not None:
                facts.append(("seed", str(seed)))
        return facts


def _title(made: TransformedImage) -> str:
    """What an image of a recipe is called on a page."""
    if made.operation in (IDENTITY, PLACEBO):
        return "nothing changed" if made.operation == IDENTITY else "placebo"
    return change_of(made)


def _scores(result: ItemResult) -> list[tuple[str, str]]:
    facts = [("image", result.image)]
    if result.strength is not None:
        facts.append(("strength", f"{result.strength:g}"))
    if result.psnr_db is not None:
        facts.append(("likeness to the original", f"{result.psnr_db:.1f} dB"))
    if result.preservation is not None:
        facts.append(("faults of preservation", ", ".join(result.preservation.faults) or "none"))
    if result.scores is not None:
        facts += [
            ("does the image change as its caption does", f"{result.scores.direction:.2f}"),
            ("how close the edit is to the original", f"{result.scores.image_image:.2f}"),
            ("how well the edit fits its caption", f"{result.scores.text_edited:.2f}"),
        ]
    return facts


@router.get("")
def list_items(
    request: Request,
    run_id: str,
    context: Context,
    kind: ItemsOfKind = None,
    state: ItemsInState = None,
    label: ItemsOfClass = None,
    after: After = None,
) -> Response:
    """Show a page of the items of a run, in planned order."""
    run = context.ledger.runs.get(run_id)
    filters = {"kind": kind, "state": state, "label": label}
    look = partial(
        context.ledger.items.page,
        run_id,
        METHODS[run.kind].item,
        kind=kind,
        state=state,
        label=label,
        limit=ITEMS_OF_A_PAGE,
    )
    found = look(after=after)
    # Few items of a large run may be of a state: a reader wants these, and no empty pages before them.
    while not found.items and found.after is not None:
        found = look(after=found.after)
    return page(
        request,
        "items.html.j2",
        shown=ShownRun(run, context.ledger.now()),
        items=[ShownItem(item) for item in found.items],
        more=found.after,
        filters={name: value for name, value in filters.items() if value is not None},
        states=get_args(ItemState),
    )


@router.get("/{item_id}")
def show_item(request: Request, run_id: str, item_id: str, context: Context) -> Response:
    """Show an item: its images, captions and predictions, and how it was made."""
    run = context.ledger.runs.get(run_id)
    item = context.ledger.items.get(run_id, item_id, METHODS[run.kind].item)
    return page(
        request, "item.html.j2", shown=ShownRun(run, context.ledger.now()), shown_item=ShownItem(item)
    )
