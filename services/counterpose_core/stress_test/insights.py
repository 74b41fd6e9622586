"""Class-level insights: which change of words affects a classifier on which class (LANCE, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from counterpose_core.statistics.bootstrap import by_source
from counterpose_core.statistics.coded import Ints, in_order, means_by
from counterpose_core.stress_test.effects import Change, Effect, Effects
from counterpose_core.text.caption_diff import kept_words, words
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_core.types import EditType

LEAST_SOURCES = 3
"""A group of fewer sources is left out."""

ANY = ""
"""Matches any removed, or added, words."""

LEAST_HARM = 0.01
"""A hint lowers p(true class) by at least this much; less is probably noise."""

_ALIKE = 2
_ONE_SIDE, _NO_WORDS = 1, 3
_BRIDGED_WORDS = 2
_COVERED = 0.5
_DENIALS = frozenset(("cannot", "neither", "no", "none", "nor", "not", "without"))
_LINKS = STOP_WORDS - _DENIALS


@dataclass(frozen=True)
class Pattern:
    """A class, an edit type and the changed words; ``ANY`` if the words differ between edits.

    ``changes`` counts the distinct changes of words; with several, it is a cluster named by one of them.
    """

    object_class: str
    edit_type: EditType
    removed: str
    added: str
    changes: int = 1

    @property
    def vagueness(self) -> int:
        """How unspecific it is: 0 or 1 sides left open; 2 for a cluster; 3 for both sides left open."""
        if self.changes > 1:
            return _ALIKE
        left_open = (self.removed == ANY) + (self.added == ANY)
        return _NO_WORDS if left_open == _ALIKE else left_open

    def in_words(self) -> str:
        """Return the change as text: “on the grass” becomes “in the snow”."""
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
    """Edits with similar changes of words, by their ids or by their places in `Effects.ids`, and the pattern
    that names them."""

    pattern: Pattern
    items: frozenset[str] | Ints


@dataclass(frozen=True)
class Group:
    """All effects of one pattern on one classifier."""

    pattern: Pattern
    effects: Effects

    @property
    def means(self) -> list[float]:
        """The mean effect on each source (n,)."""
        means: list[float] = means_by(self.effects.source, self.effects.delta_p).tolist()
        return means

    @cached_property
    def mean(self) -> float:
        """The mean effect, each source weighing 1."""
        values = self.means
        return sum(values) / len(values)

    @property
    def drops(self) -> dict[str, list[float]]:
        """The drops from the reconstruction, for each source that has one."""
        return by_source(
            (effect.source, effect.beyond) for effect in self.effects if effect.beyond is not None
        )

    @cached_property
    def spoken(self) -> Pattern:
        """The pattern in the words that most of its edits use, including stop words, as in a caption."""
        if self.pattern.changes > 1:
            return self.pattern
        removed, added = self.pattern.removed, self.pattern.added
        said: Counter[tuple[str, str]] = Counter()
        for change, number in self.effects.counted_changes():
            said[change.removed if removed else ANY, change.added if added else ANY] += number
        most = max(sorted(said), key=said.__getitem__)
        return replace(self.pattern, removed=most[0], added=most[1])

    @property
    def worst(self) -> Effect:
        """The most harmful effect."""
        return self.effects[int(np.argmin(self.effects.delta_p))]


def group_by_words(
    effects: Iterable[Effect], clusters: Iterable[Cluster] = (), *, least_sources: int = LEAST_SOURCES
) -> list[Group]:
    """Return all groups of one classifier's effects by class and words: the family of tests.

    Words are compared without the stop words around them: exactly, then by the added or removed words only,
    then by cluster, then by edit type only. Groups with the same edits become one, under the most specific
    words. Groups are formed from words only, never from outcomes.

    Args:
        effects: the effects of the classifier.
        clusters: clusters of similar changes.
        least_sources: groups with fewer sources are left out.
    """
    every = Effects.of(effects)
    changes, places = in_order(every.change)
    of_change = np.split(np.argsort(places, kind="stable"), np.cumsum(np.bincount(places))[:-1])
    chosen: dict[Pattern, list[int]] = {}
    for place, code in enumerate(changes.tolist()):
        for pattern in _patterns(every.changes[code]):
            chosen.setdefault(pattern, []).append(place)
    groups = {
        pattern: np.sort(np.concatenate([of_change[place] for place in found]))
        for pattern, found in chosen.items()
    }
    for cluster in clusters:
        groups[cluster.pattern] = every.places_of(cluster.items)
    told: dict[tuple[EditType, bytes], Group] = {}
    for pattern, at in sorted(groups.items(), key=lambda pair: pair[0].vagueness):
        group = Group(pattern, every.take(at))
        if group.effects.n_sources >= least_sources:
            told.setdefault((pattern.edit_type, _digest(at)), group)
    return list(told.values())


def _digest(at: Ints) -> bytes:
    """A short name of a set of places."""
    return blake2b(np.sort(at).astype(np.int64).tobytes(), digest_size=16).digest()


def rank_insights(groups: Iterable[Group], found: Collection[Pattern] = ()) -> list[Group]:
    """Return the harmful groups: first those ``found`` by their test, then hints, each worst first.

    A group is left out if the groups chosen before it cover half of it or more. A hint is left out if its
    harm is less than ``LEAST_HARM``. Exact words are chosen before clusters, and clusters before all edits of
    a type, so that a vague group does not replace the words that cause the harm.
    """
    harmful = [group for group in groups if group.pattern in found or group.mean <= -LEAST_HARM]
    ranked = sorted(harmful, key=lambda group: (group.pattern not in found, *_precedence(group)))
    chosen = _without_repetition(ranked)
    return sorted(chosen, key=lambda group: (group.pattern not in found, group.mean))


def _precedence(group: Group) -> tuple[int, float, int]:
    vagueness = group.pattern.vagueness
    return max(vagueness, _ONE_SIDE), group.mean, vagueness


def _patterns(effect: Change) -> Iterator[Pattern]:
    old, new = _contents(effect.removed, effect.added)
    for removed in dict.fromkeys((old, ANY)):
        for added in dict.fromkeys((new, ANY)):
            yield Pattern(effect.object_class, effect.edit_type, removed, added)


def _contents(removed: str, added: str) -> tuple[str, str]:
    """Return both without the stop words at their ends, or unchanged if those are the difference."""
    # Replacing "on the water" by "at night" and "water" by "snow" both remove the water: the words that two
    # captions happen to share must not split such changes into groups that are too small to test.
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
    told = np.zeros(max((int(group.effects.at.max()) for group in ranked), default=0) + 1, dtype=np.bool_)
    for group in ranked:
        items = group.effects.at
        if np.count_nonzero(told[items]) < _COVERED * len(items):
            listed.append(group)
            told[items] = True
    return listed


def phrase(text: str, runs: Sequence[tuple[int, int]]) -> str:
    """Return the words of ``text`` in runs of (first index, number), with short gaps between them filled.

    Replacing "on the grass" by "in the snow" changes two places, which make sense only as one phrase.
    """
    if not runs:
        return ""
    spoken = kept_words(text)
    joined: list[tuple[int, int]] = []
    for start, number in sorted(run for run in runs if run[1] > 0):
        end = min(start + number, len(spoken))
        if joined and start - joined[-1][1] <= _BRIDGED_WORDS:
            joined[-1] = (joined[-1][0], end)
        elif start < end:
            joined.append((start, end))
    return " … ".join(text[spoken[start].start : spoken[end - 1].end] for start, end in joined).lower()
