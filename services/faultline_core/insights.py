"""Class-level insights: which change of words moves a classifier on which class (LANCE, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from faultline_core.perturbations import words
from faultline_core.statistics import by_source, mean_by_source
from faultline_core.stop_words import STOP_WORDS
from faultline_core.types import EditType

LEAST_SOURCES = 3
"""Below it a group is an anecdote."""

ANY = ""
"""Stands for whatever words were removed, or added."""

LEAST_HARM = 0.01
"""A hint moves p(true class) by so much at least; less is noise that happens to point down."""

_ALIKE = 2
_ONE_SIDE, _NO_WORDS = 1, 3
_BRIDGED_WORDS = 2
_COVERED = 0.5
_DENIALS = frozenset(("cannot", "neither", "no", "none", "nor", "not", "without"))
_LINKS = STOP_WORDS - _DENIALS


@dataclass(frozen=True)
class Effect:
    """What one counterfactual did to one classifier: p(true class) after it less before.

    ``beyond`` is p(true class) of the source's reconstruction less that of the counterfactual, None
    where the source has no reconstruction.
    """

    item: str
    source: str
    object_class: str
    edit_type: EditType
    removed: str
    added: str
    delta_p: float
    beyond: float | None = None


@dataclass(frozen=True)
class Pattern:
    """A class, an edit type and its words; ``ANY`` where they differ from edit to edit.

    With more than one of ``changes``, distinct changes of words, it is a cluster that the words name.
    """

    object_class: str
    edit_type: EditType
    removed: str
    added: str
    changes: int = 1

    @property
    def vagueness(self) -> int:
        """How little it says: 0 and 1 words left open, 2 an example of them, 3 none."""
        if self.changes > 1:
            return _ALIKE
        left_open = (self.removed == ANY) + (self.added == ANY)
        return _NO_WORDS if left_open == _ALIKE else left_open

    def in_words(self) -> str:
        """The change as one reads it: “on the grass” becomes “in the snow”."""
        alike = f" and changes like it ({self.changes} different ones)" if self.changes > 1 else ""
        return self._named() + alike

    def _named(self) -> str:
        if self.removed and self.added:
            return f"“{self.removed}” becomes “{self.added}”"
        if self.added:
            return f"“{self.added}” is brought in"
        if self.removed:
            return f"“{self.removed}” is taken away or replaced"
        return f"the {self.edit_type} changes"


@dataclass(frozen=True)
class Cluster:
    """Edits whose words changed alike, by their ids, and the pattern that names them."""

    pattern: Pattern
    items: frozenset[str]


@dataclass(frozen=True)
class Group:
    """All effects of one pattern on one classifier."""

    pattern: Pattern
    effects: tuple[Effect, ...]

    @cached_property
    def means(self) -> list[float]:
        """The mean effect on each source (n,)."""
        return list(mean_by_source((effect.source, effect.delta_p) for effect in self.effects).values())

    @cached_property
    def mean(self) -> float:
        """The mean effect, each source weighing 1."""
        values = self.means
        return sum(values) / len(values)

    @cached_property
    def drops(self) -> dict[str, list[float]]:
        """The drops from the reconstruction on each source that has one."""
        return by_source(
            (effect.source, effect.beyond) for effect in self.effects if effect.beyond is not None
        )

    @cached_property
    def spoken(self) -> Pattern:
        """The pattern in the words that most of its edits used, stop words and all, as a caption has them."""
        if self.pattern.changes > 1:
            return self.pattern
        removed, added = self.pattern.removed, self.pattern.added
        said = Counter(
            (effect.removed if removed else ANY, effect.added if added else ANY) for effect in self.effects
        )
        most = max(sorted(said), key=said.__getitem__)
        return replace(self.pattern, removed=most[0], added=most[1])

    @property
    def worst(self) -> Effect:
        """The effect that hurts most."""
        return min(self.effects, key=lambda effect: effect.delta_p)


def group_by_words(
    effects: Iterable[Effect], clusters: Iterable[Cluster] = (), *, least_sources: int = LEAST_SOURCES
) -> list[Group]:
    """Every class x words of one classifier, whatever came of it: the family that is tested.

    Words are taken without the stop words around them, first exactly, then by what was added or removed
    alone, then by ``clusters`` of like changes, then by edit type alone; groups of the same edits are
    one, under the words that say most.
    Groups are formed from words only, never from outcomes, and those of fewer than ``least_sources``
    sources are left out.
    """
    groups: dict[Pattern, dict[str, Effect]] = {}
    by_item = {effect.item: effect for effect in effects}
    for effect in by_item.values():
        for pattern in _patterns(effect):
            groups.setdefault(pattern, {})[effect.item] = effect
    for cluster in clusters:
        groups[cluster.pattern] = {item: by_item[item] for item in sorted(cluster.items & by_item.keys())}
    told: dict[tuple[EditType, frozenset[str]], Group] = {}
    for pattern, found in sorted(groups.items(), key=lambda pair: pair[0].vagueness):
        group = Group(pattern, tuple(found.values()))
        if len(group.means) >= least_sources:
            told.setdefault((pattern.edit_type, frozenset(found)), group)
    return list(told.values())


def rank_insights(groups: Iterable[Group], found: Collection[Pattern] = ()) -> list[Group]:
    """The harmful groups, those ``found`` by their test before mere hints, each worst first.

    A group is left out when those chosen before it cover half of it or more, and a hint when it hurts
    less than ``LEAST_HARM``. Clusters of like changes are chosen after exact words, and all edits of a
    type together last, so that they do not stand in for the words that make the difference.
    """
    harmful = [group for group in groups if group.pattern in found or group.mean <= -LEAST_HARM]
    ranked = sorted(harmful, key=lambda group: (group.pattern not in found, *_precedence(group)))
    chosen = _without_repetition(ranked)
    return sorted(chosen, key=lambda group: (group.pattern not in found, group.mean))


def _precedence(group: Group) -> tuple[int, float, int]:
    vagueness = group.pattern.vagueness
    return max(vagueness, _ONE_SIDE), group.mean, vagueness


def _patterns(effect: Effect) -> Iterator[Pattern]:
    old, new = _contents(effect.removed, effect.added)
    for removed in dict.fromkeys((old, ANY)):
        for added in dict.fromkeys((new, ANY)):
            yield Pattern(effect.object_class, effect.edit_type, removed, added)


def _contents(removed: str, added: str) -> tuple[str, str]:
    """Both without the stop words at their ends, or as they are where those make the difference."""
    # "on the water" for "at night" and "water" for "snow" both take the water away: which words two
    # captions happen to share must not split what was changed into groups too small to test.
    contents = _content(removed), _content(added)
    tells = contents[0] != contents[1] and all(
        content or not whole for content, whole in zip(contents, (removed, added), strict=True)
    )
    return contents if tells else (removed, added)


def _content(changed: str) -> str:
    telling = [word for word in words(changed) if word.key not in _LINKS]
    return changed[telling[0].start : telling[-1].end] if telling else ""


def _without_repetition(ranked: Sequence[Group]) -> list[Group]:
    listed: list[Group] = []
    told: set[str] = set()
    for group in ranked:
        items = {effect.item for effect in group.effects}
        if len(items & told) < _COVERED * len(items):
            listed.append(group)
            told |= items
    return listed


def phrase(text: str, runs: Sequence[tuple[int, int]]) -> str:
    """The words of ``text`` that runs of (first index, number) cover, with short gaps between them filled.

    Edits that swap "on the grass" for "in the snow" change two places; read as one they make sense.
    """
    spoken = words(text)
    joined: list[tuple[int, int]] = []
    for start, number in sorted(run for run in runs if run[1] > 0):
        end = min(start + number, len(spoken))
        if joined and start - joined[-1][1] <= _BRIDGED_WORDS:
            joined[-1] = (joined[-1][0], end)
        elif start < end:
            joined.append((start, end))
    return " … ".join(text[spoken[start].start : spoken[end - 1].end] for start, end in joined).lower()
