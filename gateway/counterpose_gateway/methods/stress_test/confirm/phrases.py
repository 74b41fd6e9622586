"""Phrases of captions as conditions on images: which images show them, and by which words they come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from counterpose_core.contract.confirmation import Wording
from counterpose_core.statistics.coded import Ints
from counterpose_core.stress_test.conjunctions import (
    AnsweredImages,
    Condition,
    Conjunction,
    ConjunctionCandidate,
    conjunctions_in,
)
from counterpose_core.stress_test.screening import wording_key
from counterpose_core.text.caption_diff import words
from counterpose_core.types import EditType
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import words_of
from counterpose_gateway.methods.stress_test.observations.observed_items import BRIDGE
from counterpose_gateway.methods.stress_test.screen.interventions import reworded
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems
from counterpose_gateway.summaries.columns import NONE, hit

_Key = tuple[str, frozenset[str]]
"""An edit type, and the words of a phrase that carry its sense."""


class Phrases:
    """The phrases that edits of the screen bring in, and the wordings that do so, the most frequent first.

    A phrase that no edit brings in cannot be tested, so it is no condition.
    """

    def __init__(self, columns: ItemColumns) -> None:
        counted: dict[_Key, Counter[tuple[str, str]]] = {}
        for at in np.flatnonzero(columns.screened & columns.of("kind", "edit")).tolist():
            removed, added = words_of(columns, at)
            if added and BRIDGE not in removed + added:
                edit_type = columns.name("edit_type", int(columns.edit_type[at]))
                counted.setdefault((edit_type, wording_key("", added)[1]), Counter())[removed, added] += 1
        self._keys: dict[Condition, frozenset[str]] = {}
        self._wordings: dict[Condition, list[Wording]] = {}
        for (edit_type, key), said in counted.items():
            ordered = sorted(said, key=lambda each: (-said[each], each))
            condition = Condition(cast(EditType, edit_type), ordered[0][1])
            self._keys[condition] = key
            # Words in the place of others come first: those that are only added may contradict the caption.
            ordered.sort(key=lambda each: not each[0])
            self._wordings[condition] = [Wording(removed=old, added=new) for old, new in ordered]

    def wordings(self, condition: Condition) -> Sequence[Wording]:
        """The wordings that bring a condition in; none for one that the screen has not seen."""
        return self._wordings.get(condition, [])

    def named_in(self, caption: frozenset[str]) -> frozenset[Condition]:
        """The conditions that a caption of these words names."""
        return frozenset(each for each, key in self._keys.items() if key <= caption)

    def shows(self, caption: str, conjunction: Conjunction) -> bool:
        """Whether a caption names both conditions."""
        return {conjunction.first, conjunction.second} <= self.named_in(content(caption))

    def towards(self, condition: Condition, caption: str, label: str) -> Wording | None:
        """The first wording that brings a condition into a caption; None if it is there, or none applies."""
        if condition in self.named_in(content(caption)):
            return None
        return next((each for each in self.wordings(condition) if reworded(caption, each, label)), None)


def content(caption: str) -> frozenset[str]:
    """The words of a caption, without their order."""
    return frozenset(word.key for word in words(caption))


def fitting_conjunctions(
    seen: SeenItems, phrases: Phrases, classifiers: Sequence[str]
) -> Iterator[ConjunctionCandidate]:
    """Yield the conjunctions that fit what was answered wrong: originals, controls and kept edits."""
    columns = seen.columns
    captions = {each.source: content(each.caption or "") for each in seen.captioned}
    kept = np.flatnonzero(columns.screened & columns.done & (columns.label != NONE))
    labels = columns.label[kept]
    for label in np.unique(labels).tolist():
        of_class = kept[labels == label]
        shown = _conditions(columns, of_class, captions, phrases)
        for classifier in classifiers:
            images = _answered(columns, of_class, shown, classifier)
            yield from conjunctions_in(classifier, columns.name("label", label), images)


def _conditions(
    columns: ItemColumns, at: Ints, captions: Mapping[str, frozenset[str]], phrases: Phrases
) -> dict[int, tuple[frozenset[Condition], frozenset[Condition]]]:
    """Place of an item → the conditions of its original, and of its own image."""
    shown: dict[int, tuple[frozenset[Condition], frozenset[Condition]]] = {}
    named: dict[frozenset[str], frozenset[Condition]] = {}
    for place in at.tolist():
        caption = captions.get(columns.name("source", int(columns.source[place])))
        removed, added = words_of(columns, place)
        if caption is None or BRIDGE in removed + added:
            continue
        old, new = wording_key(removed, added) if removed or added else (frozenset(), frozenset())
        edited = caption - old | new
        for each in (caption, edited):
            if each not in named:
                named[each] = phrases.named_in(each)
        shown[place] = named[caption], named[edited]
    return shown


def _answered(
    columns: ItemColumns,
    at: Ints,
    shown: Mapping[int, tuple[frozenset[Condition], frozenset[Condition]]],
    classifier: str,
) -> AnsweredImages:
    """The images of a class as a classifier answered them, each original once."""
    answers = columns.answers[classifier]
    sources, wrong, conditions = list[int](), list[bool](), list[frozenset[Condition]]()
    originals = set[int]()
    for place in at.tolist():
        if place not in shown or not answers.hits_after[place]:
            continue
        source = int(columns.source[place])
        before, after = shown[place]
        if source not in originals:
            originals.add(source)
            sources.append(source)
            wrong.append(not hit(answers.hits_before[place]))
            conditions.append(before)
        sources.append(source)
        wrong.append(not hit(answers.hits_after[place]))
        conditions.append(after)
    return AnsweredImages(np.array(sources, dtype=np.intp), np.array(wrong, dtype=bool), conditions)
