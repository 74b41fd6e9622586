"""The recorded figures of a run, arranged by source: the input of estimates and insights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from faultline_core.contract.perturber import WordSpan
from faultline_core.contract.runs import Item, ItemResult, PredictionPair
from faultline_core.statistics.contrast import Contrast
from faultline_core.stress_test.insights import Effect, phrase
from faultline_core.types import EditType, ItemKind


@dataclass(frozen=True)
class Shot:
    """One classifier's predictions of a generated image and of the original that it was made from."""

    item: Item
    result: ItemResult
    before: PredictionPair
    after: PredictionPair
    group: str | None = None

    @property
    def source(self) -> str:
        """The image that this one was made from; its original and its controls have the same."""
        return self.item.item_group

    @property
    def unit(self) -> str:
        """The unit of every estimate: the group of alike sources, or the source alone."""
        return self.source if self.group is None else self.group

    @property
    def delta_p(self) -> float:
        """Change of p(true class); negative if the image hurts."""
        return self.after.p_true - self.before.p_true

    def drop(self, k: int = 1) -> float:
        """1 where the true class leaves the ``k`` best, -1 where it enters them."""
        return float(self.before.rank_true <= k) - float(self.after.rank_true <= k)

    @property
    def changes_answer(self) -> bool:
        """Whether the best class changes, right or wrong."""
        return best(self.before) != best(self.after)


def best(prediction: PredictionPair) -> str:
    """The predicted class."""
    return prediction.top[0][0] if prediction.top else ""


def shots(
    items: Iterable[Item], classifier: str, kind: ItemKind, groups: Mapping[str, str] | None = None
) -> list[Shot]:
    """Done items of a kind in the screen that hold this classifier's predictions, before and after."""
    group_of = groups or {}
    taken: list[Shot] = []
    for item in items:
        result = item.result
        # The images of later stages were chosen by the outcomes of the screen: they enter no other figure.
        if item.stage > 1 or item.kind != kind or item.state != "done" or result is None:
            continue
        before, after = result.original_predictions.get(classifier), result.predictions.get(classifier)
        if before is not None and after is not None:
            taken.append(Shot(item, result, before, after, group_of.get(item.item_group)))
    return taken


def hardest(shots: Iterable[Shot]) -> str:
    """The item whose image lowers p(true class) most; empty without images."""
    return min(((shot.delta_p, shot.item.id) for shot in shots), default=(0.0, ""))[1]


@dataclass(frozen=True)
class Evidence:
    """All predictions of one classifier in a run."""

    classifier: str
    edits: Sequence[Shot]
    reconstructions: Sequence[Shot]
    placebos: Sequence[Shot]
    lance_r: Sequence[Shot] = ()
    interventions: Sequence[Shot] = ()

    @classmethod
    def of(cls, items: Sequence[Item], classifier: str, groups: Mapping[str, str] | None = None) -> Evidence:
        """Collect it from the items of the run.

        ``groups`` names the group of sources that are alike, such as frames of one video; a source that is
        not in it is a unit of its own.
        """
        return cls(
            classifier,
            shots(items, classifier, "edit", groups),
            shots(items, classifier, "reconstruction", groups),
            shots(items, classifier, "placebo", groups),
            shots(items, classifier, "lance-r", groups),
            shots(items, classifier, "intervention", groups),
        )

    @property
    def everything(self) -> list[Shot]:
        """Edits and controls; baseline and interventions are separate and do not change their figures."""
        return [*self.edits, *self.reconstructions, *self.placebos]

    @cached_property
    def covered(self) -> set[str]:
        """The sources with a reconstruction and at least one kept edit, which every row covers."""
        return {shot.source for shot in self.edits} & set(self._reconstructed)

    def paired(self, shots: Sequence[Shot]) -> list[Shot]:
        """Those of the shots whose source is covered."""
        return [shot for shot in shots if shot.source in self.covered]

    def of_type(self, edit_type: EditType) -> list[Shot]:
        """The kept edits of one type."""
        return [shot for shot in self.edits if shot.item.edit_type == edit_type]

    def contrast(self, shots: Sequence[Shot]) -> Contrast | None:
        """The fall of p(true class) beyond each source's own placebo."""
        return self._beyond_placebo(shots, lambda shot: 1.0 - shot.after.p_true)

    def mistakes(self, shots: Sequence[Shot]) -> Contrast | None:
        """The rise of the share of wrong answers beyond each source's own placebo."""
        return self._beyond_placebo(shots, lambda shot: float(shot.after.rank_true > 1))

    def _beyond_placebo(self, shots: Sequence[Shot], loss: Callable[[Shot], float]) -> Contrast | None:
        own = self._own_placebos
        units = {shot.source: shot.unit for shot in shots}
        index = {source: number for number, source in enumerate(units)}
        return Contrast.between(
            [loss(shot) for shot in shots],
            [index[shot.source] for shot in shots],
            [loss(own[source]) if source in own else math.nan for source in units],
            groups=list(units.values()),
            places=_places(shots),
        )

    @cached_property
    def _own_placebos(self) -> dict[str, Shot]:
        """The placebo of each source that has one."""
        return {shot.source: shot for shot in self.placebos}

    @cached_property
    def by_item(self) -> dict[str, Shot]:
        """The kept edits by the id of their item."""
        return {shot.item.id: shot for shot in self.edits}

    @cached_property
    def effects(self) -> list[Effect]:
        """The kept edits in words."""
        return [
            Effect(
                item=shot.item.id,
                source=shot.unit,
                object_class=shot.item.label,
                edit_type=shot.item.edit_type,
                removed=removed,
                added=added,
                delta_p=shot.delta_p,
                beyond=self._beyond(shot),
            )
            for shot in self.edits
            if shot.item.edit_type is not None
            for removed, added in [changed_words(shot.result)]
        ]

    @cached_property
    def _reconstructed(self) -> dict[str, float]:
        return {shot.source: shot.after.p_true for shot in self.reconstructions}

    def _beyond(self, shot: Shot) -> float | None:
        p_true = self._reconstructed.get(shot.source)
        return None if p_true is None else p_true - shot.after.p_true


def _places(shots: Sequence[Shot]) -> list[int]:
    """The place of each edit among those planned for its source, the same for sources of one group."""
    seen: Counter[tuple[str, str, int]] = Counter()
    slots = []
    for shot in shots:
        planned = (shot.source, shot.item.edit_type or "", shot.item.slot)
        slots.append((*planned[1:], seen[planned]))
        seen[planned] += 1
    number = {slot: place for place, slot in enumerate(sorted(set(slots)))}
    return [number[slot] for slot in slots]


def changed_words(result: ItemResult) -> tuple[str, str]:
    """The removed and the added words, as written in their captions."""
    return _phrase(result.caption, result.removed), _phrase(result.edited_caption or "", result.added)


def _phrase(text: str, spans: Sequence[WordSpan]) -> str:
    return phrase(text, [(span.start, len(span.words)) for span in spans])
