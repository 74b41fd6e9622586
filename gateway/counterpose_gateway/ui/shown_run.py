"""A run as the pages show it: its name, what it is about, how far it is.

Image pairs as the pages show them: original, control and edit, with what a classifier says of each.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from counterpose_core.contract.findings import Finding, FindingPair
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.runs import Item, ItemResult, Run
from counterpose_core.errors import ImagesOutsideSuite, NotFound
from counterpose_core.kinds import title_of, unknown_kind
from counterpose_core.tasks import figures_of, recorded_task
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods import METHODS
from counterpose_gateway.methods.stress_test.report.captions import Segment, mark
from counterpose_gateway.methods.stress_test.report.findings import Answer
from counterpose_gateway.reports.numbers import count, duration, percent, signed
from counterpose_gateway.routes.context import GatewayContext

STATES = {
    "validating": "being planned",
    "queued": "waiting",
    "in_progress": "running",
    "finalizing": "planning the next phase",
    "completed": "done",
    "completed_with_failures": "done, some items failed",
    "failed": "failed",
    "cancelling": "being cancelled",
    "resuming": "being resumed",
    "cancelled": "cancelled",
}
"""The states of runs in words."""

ITEM_STATES = {"pending": "waiting", "leased": "in work"}
"""The states of items in words, where their own name is none of a user's."""

_RESUMABLE = ("completed_with_failures", "failed", "cancelled")
_LEAST_ENDED = 10
"""Items from which the time that is left is guessed."""


@dataclass(frozen=True)
class ShownRun:
    """A run with what a page says of it."""

    run: Run
    now: dt.datetime

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"/ui/runs/{self.run.id}"

    @property
    def kind(self) -> str:
        """Its kind in words."""
        return title_of(self.run.kind)

    @property
    def unknown(self) -> str:
        """Why nothing but its state can be shown, if it is of a kind that only another version knows."""
        return "" if self.run.kind in METHODS else unknown_kind(self.run.kind)

    @property
    def title(self) -> str:
        """Its name, or what it is."""
        return self.run.name or self.about

    @property
    def about(self) -> str:
        """What it is, whole: of a run without a dataset, its labels and classifiers say what it is about."""
        config = self.run.resolved_config
        if proof := config.get("proof"):
            return f"Proof of finding {proof['finding']['number']} of run {proof['parent']:.8}"
        if self.run.parent and (edits := (config.get("request") or {}).get("interventions")):
            said = ", ".join(Intervention.model_validate(edit).in_words() for edit in edits)
            return f"Application of {said} from run {self.run.parent:.8}"
        subject = self.run.dataset or ", ".join([*self.labels, *self.models[:3]]) or "nothing"
        return f"{self.kind} of {subject}"

    @property
    def state(self) -> str:
        """Its state in words."""
        return "stopped" if self.is_refused else STATES[self.run.state]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come, unless it is resumed."""
        return self.run.state in FINAL_RUN_STATES

    @property
    def can_resume(self) -> bool:
        """Whether there is something to try again."""
        return self.run.state in _RESUMABLE and not self.is_refused

    @property
    def is_refused(self) -> bool:
        """Whether it was stopped for its images, which are the same at every try."""
        return self.run.problem is not None and self.run.problem.code == ImagesOutsideSuite.code

    @property
    def models(self) -> list[str]:
        """The classifiers that it tests, if it tests any."""
        request: dict[str, Any] = self.run.resolved_config.get("request") or {}
        return [str(name) for name in request.get("classifiers", [])]

    @property
    def labels(self) -> list[str]:
        """The first labels that it asks about, if it names some."""
        request: dict[str, Any] = self.run.resolved_config.get("request") or {}
        return [str(name) for name in request.get("labels", [])][:3]

    def score_of(self, label: str) -> str:
        """Name of the score of one class's images, as the run's task has it."""
        # A run of another version may have a task that this one lacks.
        with suppress(ValidationError):
            config = self.run.resolved_config
            return figures_of(recorded_task(config), config.get("labelled", 0)).score_of(label)
        return "the score"

    @property
    def ended_items(self) -> int:
        """How many items need no more work."""
        return self.run.request_counts.total - self.run.request_counts.pending

    @cached_property
    def most_items(self) -> int:
        """The most items that it can come to have, in all of its phases; at least 1."""
        most = self.run.request_counts.total
        if not self.has_ended:
            # A run of another version may be of another kind, or have another configuration.
            with suppress(NotFound, ValidationError):
                most = METHODS[self.run.kind].most_items(self.run)
        return max(1, most)

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        most = "" if self.most_items <= self.run.request_counts.total else "at most "
        return f"{count(self.ended_items)} of {most}{count(self.most_items)}"

    @property
    def outcomes(self) -> str:
        """How the ended items ended."""
        counts = self.run.request_counts
        said = {"kept": counts.done, "filtered": counts.filtered, "failed": counts.failed}
        return ", ".join(f"{count(number)} {word}" for word, number in said.items() if number)

    @property
    def left(self) -> str:
        """About how long the whole run will still take, once enough items have ended to say so."""
        started, items = self.run.started_at, self.most_items - self.ended_items
        if self.has_ended or started is None or self.ended_items < _LEAST_ENDED or items <= 0:
            return ""
        spent = (self.now - started).total_seconds()
        seconds = spent / self.ended_items * items
        if seconds < 60:
            return "less than a minute left"
        about = "about" if self.most_items <= self.run.request_counts.total else "at most about"
        return f"{about} {duration(seconds)} left"

    @property
    def age(self) -> str:
        """How long ago it was created."""
        seconds = max(0, round((self.now - self.run.created_at).total_seconds()))
        if seconds < 60:
            return "just now"
        for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
            if number := seconds // length:
                return f"{number} {unit}{'s' if number != 1 else ''} ago"
        raise AssertionError("a minute or more is one of them")

    @property
    def phases(self) -> list[tuple[str, str]]:
        """The phases of a run that has several, each with "done", "now" or "later"."""
        plan = self.run.resolved_config.get("confirmation")
        if not isinstance(plan, dict) or plan.get("reason"):
            return []
        names = ("search for suspects", "test the suspects", "go on with those that still look harmful")
        stage = self.run.stage if not self.has_ended else len(names) + 1
        return [
            (name, "done" if number < stage else "now" if number == stage else "later")
            for number, name in enumerate(names, start=1)
        ]


@dataclass(frozen=True)
class ShownImage:
    """One image: its address, the item that made it (none made an original), and the answer to it."""

    title: str
    image: str
    item: str | None
    answer: Answer | None
    caption: str
    score: str = ""

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
    return result.predictions[name].score - (0.0 if before is None else before.score)


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
        score="" if said is None else percent(said.score),
    )


def _made(title: str, item: Item, result: ItemResult, classifier: str) -> ShownImage:
    said = result.predictions.get(classifier)
    return ShownImage(
        title=title,
        image=result.image,
        item=item.id,
        answer=None if said is None else Answer.of(said),
        caption=result.edited_caption or result.caption,
        score="" if said is None else percent(said.score),
    )
