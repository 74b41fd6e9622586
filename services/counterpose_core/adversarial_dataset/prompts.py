"""The prompts of an adversarial dataset, from captions of images that classifiers get wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from counterpose_core.bug_hunt import parts
from counterpose_core.bug_hunt.descriptions import ANOTHER_CLASS, LOST_LABEL, names, other_classes

TOO_MANY = "beyond-most-captions"
"""The reason for captions left out because enough others are more frequent."""


@dataclass(frozen=True)
class SeedPrompt:
    """A prompt that names its label, and how many captions of seeds say it."""

    label: str
    text: str
    seeds: int


@dataclass
class SeedPrompts:
    """The prompts, in the order of their first caption, and the number of captions left out, by reason."""

    prompts: list[SeedPrompt]
    dropped: Counter[str] = field(default_factory=Counter)


def prompts_of(
    captions: Iterable[tuple[str, str]], classes: Sequence[str], *, sentences: int, most: int
) -> SeedPrompts:
    """Return one prompt for each different caption, those that most seeds say first.

    Args:
        captions: the label and the caption of each seed.
        classes: all classes; a caption that names another one than its label is left out.
        sentences: how many first sentences of a caption are kept, at least 1.
        most: the largest number of prompts.
    """
    found, counts = SeedPrompts([]), Counter[tuple[str, str]]()
    for label, caption in captions:
        text = shortened(caption, sentences)
        fault = caption_fault(text, label, classes)
        if fault is None:
            counts[label, text] += 1
        else:
            found.dropped[fault] += 1
    # Stable: of equally frequent captions the first ones are taken.
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    found.prompts = [SeedPrompt(label, text, seeds) for (label, text), seeds in ordered[:most]]
    if beyond := sum(seeds for _, seeds in ordered[most:]):
        found.dropped[TOO_MANY] = beyond
    return found


def shortened(caption: str, sentences: int) -> str:
    """Return the first sentences of a caption, with single spaces."""
    listed = parts.sentences(" ".join(caption.split()))
    return " ".join(listed[:sentences])


def caption_fault(caption: str, label: str, classes: Sequence[str]) -> str | None:
    """Return why images of a caption would be no images of the label alone, or None."""
    if not names(caption, label):
        return LOST_LABEL
    return ANOTHER_CLASS if other_classes(caption, label, classes) else None
