"""LANCE's five failure modes (figure 12, appendix E) as tags on kept edits, by rules over recorded facts.

The paper found them by eye. A rule can only suspect: a tag says which images to inspect first, and all
estimates include the tagged edits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from counterpose_core.text.caption_diff import kept_words, words
from counterpose_core.types import EditType

FailureMode = Literal[
    "label-incompatible", "poor-quality", "changed-truth", "inherited-bias", "meaningless-edit"
]
FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)

RULES: dict[FailureMode, str] = {
    "label-incompatible": (
        "an adjective was added to the labelled object, and every classifier that was right loses at least "
        "half of its score"
    ),
    "poor-quality": (
        "the image fits its caption worse, beside the original, than the lower fence of all kept edits"
    ),
    "changed-truth": (
        "two or more classifiers, all right before, answer one and the same other class after the edit"
    ),
    "inherited-bias": "the changed words name a person, whom the generator draws by its own stereotypes",
    "meaningless-edit": (
        "removed and added words are the same but for function words, or both name photographs and films only"
    ),
}
"""The rule of each mode in words, as the report prints it."""

_LEAST_FOR_A_FENCE = 8
_FENCE = 1.5
"""Tukey's fence: this many interquartile ranges below the first quartile."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTION_WORDS = _word_set(
    "a an and are at by her his in is it its of on or some that the their this to with"
)
_MEDIA = _word_set(
    "clip film footage frame image images movie photo photograph photographs photos picture pictures "
    "shot snapshot video videos"
)
PERSONS = _word_set(
    "adult adults athlete athletes baby boy boys child children couple crowd driver female girl girls kid "
    "kids ladies lady lifeguard male man men people person player players rider swimmer teenager woman "
    "women worker"
)


@dataclass(frozen=True)
class Answer:
    """One classifier's score and answer on the original and on the edited image, and which are right."""

    p_before: float
    p_after: float
    before: str
    after: str
    right_before: bool
    right_after: bool


@dataclass(frozen=True)
class KeptEdit:
    """The recorded facts of one kept edit.

    ``removed`` and ``added`` are indices of words in ``caption`` and ``edited_caption``. ``fit`` is the
    cosine of the edited image and its caption minus that of the original image and its caption.
    """

    item: str
    object_class: str
    edit_type: EditType
    caption: str
    edited_caption: str
    removed: frozenset[int]
    added: frozenset[int]
    fit: float | None
    answers: Mapping[str, Answer]

    @cached_property
    def changed(self) -> tuple[frozenset[str], frozenset[str]]:
        """The removed and the added words, split at hyphens and apostrophes, without function words."""
        return _spoken(self.caption, self.removed), _spoken(self.edited_caption, self.added)

    @property
    def right_before(self) -> list[Answer]:
        """The answers of the classifiers that were right before the edit."""
        return [answer for answer in self.answers.values() if answer.right_before]


def _spoken(text: str, indices: frozenset[int]) -> frozenset[str]:
    spoken = kept_words(text)
    return _parts(tuple(spoken[index].key for index in sorted(indices) if index < len(spoken)))


@lru_cache(maxsize=10_000)
def _parts(keys: tuple[str, ...]) -> frozenset[str]:
    return frozenset(part for key in keys for part in re.split("[-']", key)) - _FUNCTION_WORDS


def find_failure_modes(edits: Sequence[KeptEdit]) -> dict[FailureMode, list[str]]:
    """Return the items that the rule of each mode in ``RULES`` suspects; an item may have several modes."""
    fence = lower_fence(edit.fit for edit in edits if edit.fit is not None)

    def poor(edit: KeptEdit) -> bool:
        return edit.fit is not None and edit.fit < fence

    rules = {**PER_EDIT, "poor-quality": poor}
    return {mode: [edit.item for edit in edits if rules[mode](edit)] for mode in FAILURE_MODES}


PER_EDIT: Mapping[FailureMode, Callable[[KeptEdit], bool]]
"""The rules that look at one edit alone; that of ``poor-quality`` needs all of them."""


def modes_of(edit: KeptEdit) -> int:
    """Return the modes that `PER_EDIT` suspects, as the bits of their places in `FAILURE_MODES`."""
    return sum(
        1 << place for place, mode in enumerate(FAILURE_MODES) if mode in PER_EDIT and PER_EDIT[mode](edit)
    )


def lower_fence(fits: Iterable[float]) -> float:
    found = list(fits)
    if len(found) < _LEAST_FOR_A_FENCE:
        return -np.inf
    low, high = np.quantile(found, [0.25, 0.75])
    return float(low - _FENCE * (high - low))


def label_incompatible(edit: KeptEdit) -> bool:
    """Return True if an added adjective may contradict the class ("inconsistent with GT": a purple monkey).

    The edit is an adjective edit with an added word before the class name, at most one word between them, and
    every classifier that was right (at least one) loses half or more of its p(true class).
    """
    right = edit.right_before
    described = edit.edit_type == "adjective" and _describes(edit)
    return described and bool(right) and all(answer.p_after <= answer.p_before / 2 for answer in right)


def _describes(edit: KeptEdit) -> bool:
    label = [word.key.removesuffix("s") for word in words(edit.object_class)]
    spoken = [word.key.removesuffix("s") for word in words(edit.edited_caption)]
    for start in range(1, len(spoken) - len(label) + 1):
        between = start > 1 and spoken[start - 1] not in _FUNCTION_WORDS
        nearby = {start - 1, start - 2} if between else {start - 1}
        if spoken[start : start + len(label)] == label and nearby & edit.added:
            return True
    return False


def changed_truth(edit: KeptEdit) -> bool:
    """Return True if the edited image may show another class ("changing GT": a typewriter became a stapler).

    Several classifiers that were all right before the edit now agree on one other class, so the image
    probably shows it. A single classifier is not enough: its new answer is what a stress test looks for.
    """
    after = {answer.after for answer in edit.answers.values()}
    unanimous = len(after) == 1 and not any(answer.right_after for answer in edit.answers.values())
    return len(edit.answers) >= 2 and len(edit.right_before) == len(edit.answers) and unanimous


def inherited_bias(edit: KeptEdit) -> bool:
    """Return True if a word for a person was removed or added ("image generation bias")."""
    removed, added = edit.changed
    return bool((removed | added) & PERSONS)


def meaningless(edit: KeptEdit) -> bool:
    """Return True if the edit does not change what the image shows ("meaningless caption edit").

    The changed words are the same except for function words ("back-seat", "the back seat"), or all of them
    name media ("photo", "video").
    """
    removed, added = edit.changed
    return removed == added or bool(removed and added and removed | added <= _MEDIA)


PER_EDIT = MappingProxyType(
    {
        "label-incompatible": label_incompatible,
        "changed-truth": changed_truth,
        "inherited-bias": inherited_bias,
        "meaningless-edit": meaningless,
    }
)
