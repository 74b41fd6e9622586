"""Before/after pairs of the report: which are shown, and everything a pair says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.contract.runs import Item, ItemResult, PredictionPair
from faultline_gateway.reports.captions import Segment, mark
from faultline_gateway.reports.numbers import percent, signed
from faultline_gateway.reports.pictures import Album, Inline
from faultline_gateway.workflows.objectionable import OBJECTIONABLE

HARDEST = 12
SAMPLED = 12
FILTERED = 6
EXAMPLES = 24
"""Beyond those shown anyway; a row whose example is not shown links to the item itself."""


@dataclass(frozen=True)
class Guess:
    """One of the five best classes of a prediction."""

    name: str
    share: float
    text: str
    correct: bool


@dataclass(frozen=True)
class Reaction:
    """What one classifier said before and after the edit."""

    classifier: str
    before: list[Guess]
    after: list[Guess]
    change: str
    hurts: bool
    flipped: bool


@dataclass(frozen=True)
class Pair:
    """An original, the picture made from it, and what became of them."""

    item: str
    ordinal: int
    label: str
    kind: str
    before: Inline | None
    after: Inline | None
    caption: list[Segment]
    edited_caption: list[Segment]
    reactions: list[Reaction]
    figures: list[tuple[str, str]]
    reason: str | None = None


@dataclass(frozen=True)
class Gallery:
    """The hardest counterfactuals, a random sample of the rest, what tables name, some that were stopped."""

    hardest: list[Pair]
    sampled: list[Pair]
    examples: list[Pair]
    filtered: list[Pair]
    kept: int

    @property
    def shown(self) -> set[str]:
        """The items that have a place here."""
        return {pair.item for pair in (*self.hardest, *self.sampled, *self.examples, *self.filtered)}


Made = tuple[Item, ItemResult]
"""An item and what it made."""


def build_gallery(
    items: Sequence[Item], album: Album, *, run: str, seed: int, named: Sequence[str] = ()
) -> Gallery:
    """Choose the pairs: the hardest are the exception, so an honest sample stands beside them.

    ``named`` are the items that tables speak of, the most important first.
    """
    edits = [(item, item.result) for item in items if item.kind == "edit" and item.result is not None]
    kept = [made for made in edits if made[0].state == "done"]
    # Nobody should have to look at the others.
    stopped = [made for made in edits if made[0].state == "filtered" and made[0].reason != OBJECTIONABLE]
    ranked = sorted(kept, key=lambda made: min((change for _, change in _changes(made[1])), default=0.0))
    generator = np.random.default_rng(seed)
    hardest, sampled = ranked[:HARDEST], _draw(ranked[HARDEST:], SAMPLED, generator)
    examples = _further(kept, named, {item.id for item, _ in (*hardest, *sampled)})
    return Gallery(
        hardest=[pair(made, album, run) for made in hardest],
        sampled=[pair(made, album, run) for made in sampled],
        examples=[pair(made, album, run) for made in examples],
        filtered=[pair(made, album, run) for made in _draw(stopped, FILTERED, generator)],
        kept=len(kept),
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
            yield classifier, after.p_true - result.original_predictions[classifier].p_true


def pair(made: Made, album: Album, run: str) -> Pair:
    """Everything the report says about an edit."""
    item, result = made
    changes = sorted(_changes(result), key=lambda change: change[1])
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
        reason=item.reason,
    )


def _reaction(classifier: str, change: float, result: ItemResult, label: str) -> Reaction:
    before, after = result.original_predictions[classifier], result.predictions[classifier]
    return Reaction(
        classifier=classifier,
        before=_guesses(before, label),
        after=_guesses(after, label),
        change=signed(change, 2),
        hurts=change < 0,
        flipped=before.rank_true == 1 and after.rank_true > 1,
    )


def _guesses(prediction: PredictionPair, label: str) -> list[Guess]:
    return [Guess(name, round(p, 4), percent(p), name == label) for name, p in prediction.top]


def _figures(result: ItemResult) -> list[tuple[str, str]]:
    figures: list[tuple[str, str]] = []
    if result.scores is not None:
        figures += [
            ("direction", signed(result.scores.direction, 2)),
            ("image-image", f"{result.scores.image_image:.2f}"),
            ("image-text", f"{result.scores.text_edited:.2f}"),
        ]
    if result.self_replace is not None:
        figures.append(("self-replace", f"{result.self_replace:g}"))
    return figures
