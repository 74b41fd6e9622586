"""The proposals for one caption: usable edits, and the number dropped for each reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from counterpose_core.contract.perturber import CaptionEdit, Perturbations, WordSpan
from counterpose_core.text.caption_diff import Span, difference, words

EMPTY, ECHO, DUPLICATE, UNFINISHED, UNREADABLE = "empty", "echo", "duplicate", "unfinished", "unreadable"


@dataclass
class Proposals:
    """Collects up to ``wanted`` distinct edits of ``caption``, in the order of their draws."""

    caption: str
    wanted: int
    draws: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    _edits: dict[tuple[str, ...], CaptionEdit] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """The number of edits that are still missing."""
        return self.wanted - len(self._edits)

    def take(self, edited: str) -> None:
        """Add an edited caption, or count why it is unusable; further ones than wanted are ignored."""
        if self.missing <= 0:
            return
        key = tuple(word.key for word in words(edited))
        found = difference(self.caption, edited)
        if not key:
            self.dropped[EMPTY] += 1
        elif found.is_empty:
            self.dropped[ECHO] += 1
        elif key in self._edits:
            self.dropped[DUPLICATE] += 1
        else:
            self._edits[key] = CaptionEdit(
                edited_caption=edited, removed=_spans(found.removed), added=_spans(found.added)
            )

    def answer(self) -> Perturbations:
        """Return the edits and the counts."""
        return Perturbations(edits=list(self._edits.values()), dropped=dict(self.dropped))


def _spans(spans: tuple[Span, ...]) -> list[WordSpan]:
    return [WordSpan(words=list(span.words), start=span.start) for span in spans]
