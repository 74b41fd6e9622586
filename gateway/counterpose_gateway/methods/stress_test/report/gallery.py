"""Before/after pairs of the report: the choice of pairs, their content, and links to the other items."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.contract.preservation import Preservation
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.stress_test.item_counts import CONTROLS
from counterpose_gateway.methods.stress_test.report.captions import Segment, mark
from counterpose_gateway.reports.images import Album, Inline
from counterpose_gateway.reports.numbers import percent, signed
from counterpose_gateway.steps.objectionable import OBJECTIONABLE

HARDEST = 9
SAMPLED = 9
FILTERED = 6
EXAMPLES = 8
"""In addition to those shown anyway; a row whose example is not shown names the item without a link."""

_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class Guess:
    """One of the five best classes of a prediction."""

    name: str
    text: str
    correct: bool


@dataclass(frozen=True)
class Reaction:
    """One classifier's predictions before and after the edit."""

    classifier: str
    before: list[Guess]
    after: list[Guess]
    change: str
    flipped: bool


@dataclass(frozen=True)
class Pair:
    """An original, the image made from it, and the classifiers' predictions on both."""

    item: str
    ordinal: int
    label: str
    kind: str
    before: Inline | None
    after: Inline | None
    caption: list[Segment]
    edited_caption: list[Segment]
    reactions: list[Reaction]
    figures: list[tuple[str, str, str]]
    loss: float
    reason: str | None = None
    difference: Inline | None = None
    faults: Sequence[str] = ()


@dataclass(frozen=True)
class Gallery:
    """The hardest counterfactuals, samples of the others and of the stopped ones, examples from tables."""

    hardest: list[Pair]
    sampled: list[Pair]
    examples: list[Pair]
    filtered: list[Pair]
    kept: int

    @property
    def pairs(self) -> list[Pair]:
        """The kept counterfactuals of the gallery, the largest loss first."""
        return sorted((*self.hardest, *self.sampled, *self.examples), key=lambda pair: -pair.loss)

    @property
    def shown(self) -> set[str]:
        """The ids of all items in the gallery."""
        return {pair.item for pair in (*self.pairs, *self.filtered)}


Made = tuple[Item, ItemResult]
"""An item and its result."""


def build_gallery(
    items: Sequence[Item],
    album: Album,
    *,
    run: str,
    seed: int,
    named: Sequence[str] = (),
    without: Collection[str] = (),
    kept: int | None = None,
) -> Gallery:
    """Choose the pairs: the hardest are exceptional, so a random sample accompanies them.

    ``named`` are the items that tables mention, the most important first; those ``without`` are shown
    elsewhere, so they are left out. ``kept`` is the number of kept edits, if ``items`` are not all.
    """
    edits = [(item, item.result) for item in items if item.kind == "edit" and item.result is not None]
    done = [made for made in edits if made[0].state == "done"]
    # Objectionable images are not shown.
    stopped = [made for made in edits if made[0].state == "filtered" and made[0].reason != OBJECTIONABLE]
    ranked = sorted(
        (made for made in done if made[0].id not in without),
        key=lambda made: min((change for _, change in _changes(made[1])), default=0.0),
    )
    generator = np.random.default_rng(seed)
    hardest, sampled = ranked[:HARDEST], _draw(ranked[HARDEST:], SAMPLED, generator)
    examples = _further(done, named, {*without, *(item.id for item, _ in (*hardest, *sampled))})
    drawn = _draw(stopped, FILTERED, generator)
    drawn += _further(stopped, named, {item.id for item, _ in drawn})
    return Gallery(
        hardest=[pair(made, album, run) for made in hardest],
        sampled=[pair(made, album, run) for made in sampled],
        examples=[pair(made, album, run) for made in examples],
        filtered=[pair(made, album, run) for made in drawn],
        kept=len(done) if kept is None else kept,
    )


def _further(kept: Sequence[Made], named: Sequence[str], shown: Collection[str]) -> list[Made]:
    by_id = {item.id: (item, result) for item, result in kept}
    wanted = [name for name in dict.fromkeys(named) if name in by_id and name not in shown]
    return [by_id[name] for name in wanted[:EXAMPLES]]


def _draw(made: Sequence[Made], number: int, generator: np.random.Generator) -> list[Made]:
    return [made[index] for index in sorted(generator.permutation(len(made))[:number].tolist())]


def _changes(result: ItemResult) -> Iterator[tuple[str, float]]:
    for classifier, after in result.predictions.items():
        if classifier in result.original_predictions:
            yield classifier, after.score - result.original_predictions[classifier].score


def pair(made: Made, album: Album, run: str) -> Pair:
    """Collect all that the report shows of an edit."""
    item, result = made
    changes = sorted(_changes(result), key=lambda change: change[1])
    preserved = result.preservation
    return Pair(
        item=item.id,
        ordinal=item.ordinal,
        label=item.label,
        kind=item.edit_type or item.kind,
        before=album.original(item.source_image),
        after=album.generated(result.image, run=run, item=item.id),
        caption=mark(result.caption, result.removed),
        edited_caption=mark(result.edited_caption or result.caption, result.added),
        reactions=[_reaction(name, change, result, item.label) for name, change in changes],
        figures=_figures(result),
        loss=round(-min((change for _, change in changes), default=0.0), 4),
        reason=item.reason,
        difference=None
        if preserved is None or preserved.map is None
        else album.generated(preserved.map, run=run, item=item.id),
        faults=[] if preserved is None else preserved.faults,
    )


def control_of(shown: Pair | None, items: Sequence[Item], album: Album, run: str) -> Inline | None:
    """The control of a pair's source, its placebo or else its reconstruction, if one was kept."""
    if shown is None:
        return None
    source = next(item.item_group for item in items if item.id == shown.item)
    own = [item for item in items if item.item_group == source and item.state == "done"]
    for kind in reversed(CONTROLS):
        for item in own:
            if item.kind == kind and item.result is not None:
                return album.generated(item.result.image, run=run, item=item.id)
    return None


def _reaction(classifier: str, change: float, result: ItemResult, label: str) -> Reaction:
    before, after = result.original_predictions[classifier], result.predictions[classifier]
    return Reaction(
        classifier=classifier,
        before=_guesses(before, label),
        after=_guesses(after, label),
        change=signed(change, 2),
        flipped=before.right and not after.right,
    )


def _guesses(prediction: Scored, label: str) -> list[Guess]:
    """The best classes; those that round to 0 % tell nothing."""
    shown = [(name, p) for name, p in prediction.shown if p >= _LEAST_SHARE]
    # Of several that are as right, the answer itself is known to be.
    right = {label, prediction.answer} if prediction.right else {label}
    return [Guess(name, percent(p), name in right) for name, p in shown]


def _figures(result: ItemResult) -> list[tuple[str, str, str]]:
    """Name, value and meaning of the scores of an edit."""
    figures: list[tuple[str, str, str]] = []
    if result.scores is not None:
        figures += [
            ("direction", signed(result.scores.direction, 2), "does the image change as the caption does?"),
            ("image-image", f"{result.scores.image_image:.2f}", "how close is the edit to the original?"),
            ("image-text", f"{result.scores.text_edited:.2f}", "how well does the edit fit its caption?"),
        ]
    if result.preservation is not None:
        figures += _moved(result.preservation)
    figures += [
        (f"judge {name}", each.verdict, each.detail or "what this judge says of the edit")
        for name, each in result.judgements.items()
    ]
    if result.region is not None:
        kept = f"the rest was kept by {result.region.by or 'the editor'}"
        figures.append(("region", f"{result.region.edits} the mask", f"where it was to change; {kept}"))
    if result.strength is not None and (result.preset is None or result.preset.capabilities.levels):
        figures.append(("strength", f"{result.strength:g}", "the one that was chosen of those tried"))
    return figures


def _moved(preserved: Preservation) -> Iterator[tuple[str, str, str]]:
    """What is known of the movement of an edited image."""
    if preserved.movement is not None:
        across, down = preserved.movement.shift
        wide, high = preserved.movement.scale
        shift = f"{signed(100 * across, 1)} %, {signed(100 * down, 1)} %"
        yield "shift", shift, "how far the image lies across and down, in shares of its sides"
        yield "scale", f"{wide:.3f}, {high:.3f}", "how much larger it is across and down"


_OF_EACH_MODE = 3


@dataclass(frozen=True)
class Link:
    """An item in words, with a link where the report shows its image."""

    href: str
    text: str


def item_links(items: Sequence[Item], shown: Collection[str]) -> dict[str, Link]:
    """A name for every item, and a link inside the report where the item is ``shown``."""
    return {
        item.id: Link(f"#item-{item.id}" if item.id in shown else "", f"item {item.ordinal}")
        for item in items
    }


def named_items(summary: StressTestSummary) -> list[str]:
    """The items that the report's tables mention."""
    suspected = [
        item for mode in summary.failure_modes.values() for item in mode.example_items[:_OF_EACH_MODE]
    ]
    faulty = (
        []
        if summary.preservation is None
        else [
            item
            for row in summary.preservation.rows.values()
            for named in row.example_items.values()
            for item in named
        ]
    )
    classes = [figures.example_item for figures in summary.classes.values() if figures.example_item]
    split = [] if summary.judges is None else [each.item for each in summary.judges.disagreements]
    return [*suspected, *classes, *faulty, *split[:EXAMPLES]]
