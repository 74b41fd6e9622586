"""Captions of image pairs, with the words that change marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.perturber import WordSpan
from counterpose_core.text.caption_diff import words


@dataclass(frozen=True)
class Segment:
    """A piece of a caption; ``changed`` words are marked."""

    text: str
    changed: bool


def mark(text: str, spans: Sequence[WordSpan]) -> list[Segment]:
    """Cut a caption into changed and unchanged pieces, which join to the whole caption."""
    spoken = words(text)
    segments: list[Segment] = []
    position = 0
    for span in sorted(spans, key=lambda span: span.start):
        covered = spoken[span.start : span.start + len(span.words)]
        if not covered or covered[0].start < position:
            continue
        segments.append(Segment(text[position : covered[0].start], changed=False))
        segments.append(Segment(text[covered[0].start : covered[-1].end], changed=True))
        position = covered[-1].end
    segments.append(Segment(text[position:], changed=False))
    return [segment for segment in segments if segment.text]
