"""The figures of a finished run, laid out by source: what estimates and insights are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultline_core.contract.perturber import WordSpan
from faultline_core.contract.runs import Item, ItemResult, PredictionPair
from faultline_core.insights import Effect, phrase
from faultline_core.types import ItemKind


@dataclass(frozen=True)
class Shot:
    """One generated picture before one classifier, beside the original it came from."""

    item: Item
    result: ItemResult
    before: PredictionPair
    after: PredictionPair

    @property
    def source(self) -> str:
        """The unit of every estimate."""
        return self.item.source_id

    @property
    def delta_p(self) -> float:
        """Change of p(true class): negative where the picture hurts."""
        return self.after.p_true - self.before.p_true


def shots(items: Iterable[Item], classifier: str, kind: ItemKind) -> list[Shot]:
    """Done items of a kind that hold this classifier's predictions, before and after."""
    found: list[Shot] = []
    for item in items:
        result = item.result
        if item.kind != kind or item.state != "done" or result is None:
            continue
        before, after = result.original_predictions.get(classifier), result.predictions.get(classifier)
        if before is not None and after is not None:
            found.append(Shot(item, result, before, after))
    return found


def changed_words(result: ItemResult) -> tuple[str, str]:
    """The removed and the added words as they stand in their captions."""
    return _phrase(result.caption, result.removed), _phrase(result.edited_caption or "", result.added)


def _phrase(text: str, spans: Sequence[WordSpan]) -> str:
    return phrase(text, [(span.start, len(span.words)) for span in spans])


def effects(found: Iterable[Shot]) -> list[Effect]:
    """The edits among the shots as effects in words."""
    return [
        Effect(shot.item.id, shot.source, shot.item.label, shot.item.edit_type, *words, shot.delta_p)
        for shot in found
        if shot.item.edit_type is not None
        for words in [changed_words(shot.result)]
    ]
