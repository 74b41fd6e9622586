"""What an insight's words mean by the grammar, and which planted bug they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from counterpose_core.contract.stress_tests import Insight
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.grammar import EDIT_TYPES, tokens
from counterpose_miniature.world.wording import SPECIAL_MARKS, WORDS

from .changes import Change

UNSPOKEN: Mapping[str, str] = MappingProxyType({"companion": "none", "weather": "clear", "kind": "plain"})
"""Values that captions do not mention: a caption silent about such an attribute means this value."""


class Told(Protocol):
    """What an insight or a finding says: a classifier, a class, a type of change and its words."""

    @property
    def classifier(self) -> str: ...
    @property
    def object_class(self) -> str: ...
    @property
    def edit_type(self) -> str: ...
    @property
    def removed(self) -> str: ...
    @property
    def added(self) -> str: ...


@dataclass(frozen=True)
class Meaning:
    """A class whose attribute changed from one value to another; None where the words are silent.

    An insight is silent on a side that differs from edit to edit, too.
    """

    object_class: str
    edit_type: str
    attribute: str
    removed: str | None
    added: str | None

    def names(self, bug: Bug) -> bool:
        """Whether this is the bug: its class, type and value, removed (leans-on) or added (mistaken-for)."""
        same = (self.object_class, self.edit_type, self.attribute)
        value = (self.removed if bug.mode == "leans-on" else self.added) or UNSPOKEN.get(self.attribute)
        return same == (bug.object_class, bug.edit_type, bug.attribute) and value == bug.value

    def covers(self, change: Change) -> bool:
        """Whether the words describe an edit."""
        same = (self.object_class, self.edit_type, self.attribute)
        return (
            same == (change.object_class, change.edit_type, change.attribute)
            and self.removed in (None, change.removed)
            and self.added in (None, change.added)
        )


def named_values(words: str, object_class: str) -> dict[str, str]:
    """Attribute values that the words name in a caption of the class."""
    spoken = tokens(words)
    found = dict(WORDS[word] for word in spoken if word in WORDS)
    if SPECIAL_MARKS.get(object_class) in spoken:
        found["kind"] = "special"
    return found


def meanings(insight: Told) -> list[Meaning]:
    """What an insight or a finding says, one meaning for each attribute of its type that its words name."""
    removed, added = (named_values(words, insight.object_class) for words in (insight.removed, insight.added))
    named = [name for name in EDIT_TYPES.get(insight.edit_type, ()) if name in removed or name in added]
    return [
        Meaning(
            insight.object_class,
            insight.edit_type,
            name,
            removed.get(name),
            added.get(name),
        )
        for name in named
    ]


def members(insight: Insight, changes: Iterable[Change]) -> list[Change]:
    """Kept edits that an insight is about: by its words, or all of its class and type if it has none.

    A cluster of similar changes lists its edits: its words are those of its central edit.
    """
    if insight.cluster_items:
        listed = set(insight.cluster_items)
        return [change for change in changes if change.kept and change.item in listed]
    said = meanings(insight)
    alike = (insight.object_class, insight.edit_type)
    return [
        change
        for change in changes
        if change.kept
        and (change.object_class, change.edit_type) == alike
        and (not said or any(meaning.covers(change) for meaning in said))
    ]
