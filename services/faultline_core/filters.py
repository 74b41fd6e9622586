"""LANCE's checks and balances: the text filter, the picture gate, the choice over the sweep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from numpy.typing import ArrayLike

from faultline_core.clip_metrics import cosine
from faultline_core.types import Selection

TextReason = Literal["label-in-edit", "subjective", "edit-too-similar"]
GateReason = Literal["gate-direction", "gate-image-image", "gate-image-text", "gate-closer", "gate-new-word"]

GATE_REASONS: tuple[GateReason, ...] = (
    "gate-direction",
    "gate-image-image",
    "gate-image-text",
    "gate-closer",
)
"""LANCE's criteria in the order they are judged."""

LANCE_R_REASONS: tuple[GateReason, ...] = ("gate-new-word",)
"""The one criterion of the random baseline: the picture is nearer to the new word than to the old."""

_ORDER = (*GATE_REASONS, *LANCE_R_REASONS)

_WORD = re.compile(r"\w+(?:[-']\w+)*")


class Scores(Protocol):
    """The cosines the gate reads; `faultline_core.contract.scorer.EditScores` is one."""

    @property
    def direction(self) -> float: ...
    @property
    def image_image(self) -> float: ...
    @property
    def text_original(self) -> float: ...
    @property
    def text_edited(self) -> float: ...
    @property
    def text_edited_source(self) -> float: ...
    @property
    def words_added(self) -> float | None: ...
    @property
    def words_removed(self) -> float | None: ...


class Thresholds(Protocol):
    """The least cosines that pass; `faultline_core.contract.stress_tests.GateThresholds` is one."""

    @property
    def direction(self) -> float: ...
    @property
    def image_image(self) -> float: ...
    @property
    def image_text(self) -> float: ...
    @property
    def closer(self) -> bool: ...


@dataclass(frozen=True)
class TextVerdict:
    """Why a caption edit is dropped, or None, with the two largest similarities that were judged."""

    reason: TextReason | None
    class_similarity: float | None = None
    word_similarity: float | None = None


@dataclass(frozen=True)
class Choice:
    """The variant taken from a sweep and the criterion it fails; with None it passes them all."""

    index: int
    failed: GateReason | None


def names_label(removed: Iterable[str], added: Iterable[str], label: str) -> bool:
    """Tell whether an edit takes any word of the label away, or brings the whole label in."""
    # "double" gone from "double-decker bus" may change the class, "bus" added alone need not name it: so any
    # word lost counts, but only a whole label gained.
    target = _word_set([label])
    return bool(target & _word_set(removed)) or (bool(target) and target <= _word_set(added))


def _word_set(texts: Iterable[str]) -> set[str]:
    # A caption says "two dogs" of the class "dog".
    return {word.removesuffix("s") for text in texts for word in _WORD.findall(text.casefold())}


def text_filter(
    *,
    label: ArrayLike,
    removed: Sequence[ArrayLike],
    added: Sequence[ArrayLike],
    class_epsilon: float,
    word_epsilon: float,
) -> TextVerdict:
    """Judge a caption edit by sentence embeddings (LANCE, section 3.1, "Caption editing").

    Removed *and* added words must be less similar to the class than ``class_epsilon``, and to each
    other than ``word_epsilon``. ``removed`` and ``added`` hold the embedding (d,) of the whole phrase
    first, then of its parts where it has several; both are empty for a pure insertion or deletion.
    """
    # The worst part decides: a long phrase dilutes the one word in it that names the class.
    nearest = max((float(cosine(words, label)) for words in (*removed, *added)), default=None)
    same = float(cosine(removed[0], added[0])) if removed and added else None
    if nearest is not None and nearest >= class_epsilon:
        return TextVerdict("label-in-edit", nearest, same)
    if same is not None and same >= word_epsilon:
        return TextVerdict("edit-too-similar", nearest, same)
    return TextVerdict(None, nearest, same)


def gate(
    scores: Scores, thresholds: Thresholds, criteria: Sequence[GateReason] = GATE_REASONS
) -> GateReason | None:
    """Return the first criterion the edit fails, or None (LANCE, section 3.2, "Image editing").

    Both pictures must fit their captions, and the edit must be nearer to the edited caption than to
    the original one. ``criteria`` leaves some unjudged: a placebo has no direction to follow, and
    LANCE-R is judged by its own criterion alone (section 4.1), which an edit without removed or added
    words fails.
    """
    # The published code keeps large cosines although the paper writes the threshold on 1 - cosine.
    passed = {
        "gate-direction": scores.direction >= thresholds.direction,
        "gate-image-image": scores.image_image >= thresholds.image_image,
        "gate-image-text": min(scores.text_original, scores.text_edited) >= thresholds.image_text,
        "gate-closer": not thresholds.closer or scores.text_edited > scores.text_edited_source,
        "gate-new-word": _nearer(scores.words_added, scores.words_removed),
    }
    return next((reason for reason in _ORDER if reason in criteria and not passed[reason]), None)


def _nearer(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other


def choose(
    sweep: Sequence[tuple[float, Scores]],
    thresholds: Thresholds,
    selection: Selection,
    criteria: Sequence[GateReason] = GATE_REASONS,
) -> Choice:
    """Pick one of the variants, each given as its self_replace fraction and its scores.

    ``paper`` takes the best direction among those that pass, ``released`` the largest passing
    fraction. If none passes, the variant that got furthest through the gate is named as failing.
    """
    failures = [gate(scores, thresholds, criteria) for _, scores in sweep]
    passing = [index for index, failure in enumerate(failures) if failure is None]
    # The released loop forgets its best value at every turn, so that the last one to pass wins.
    if passing and selection == "released":
        return Choice(max(passing, key=lambda index: sweep[index][0]), None)
    if passing:
        return Choice(max(passing, key=lambda index: sweep[index][1].direction), None)
    # The reason reported is that of the most promising variant: it tells which threshold to look at.
    furthest = max(range(len(sweep)), key=lambda index: (_depth(failures[index]), sweep[index][1].direction))
    return Choice(furthest, failures[furthest])


def _depth(failure: GateReason | None) -> int:
    return len(_ORDER) if failure is None else _ORDER.index(failure)
