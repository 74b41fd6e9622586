"""LANCE's filters: the text filter, the image gate and the choice among the sweep's variants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from numpy.typing import ArrayLike

from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.images.clip_metrics import cosine
from counterpose_core.types import Selection

TextReason = Literal["label-in-edit", "policy", "subjective", "edit-too-similar"]
GateReason = Literal["gate-direction", "gate-image-image", "gate-image-text", "gate-closer", "gate-new-word"]

GATE_REASONS: tuple[GateReason, ...] = (
    "gate-direction",
    "gate-image-image",
    "gate-image-text",
    "gate-closer",
)
"""LANCE's criteria, in the order in which they are checked."""

LANCE_R_REASONS: tuple[GateReason, ...] = ("gate-new-word",)
"""The only criterion of the random baseline: the image is nearer to the new word than to the old one."""

_ORDER = (*GATE_REASONS, *LANCE_R_REASONS)

_TIED = 1e-5
"""Direction cosines this close differ only by the rounding of float32."""

_WORD = re.compile(r"\w+(?:[-']\w+)*")


class Scores(Protocol):
    """The cosines that the gate reads, such as `counterpose_core.contract.scorer.EditScores`."""

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


@dataclass(frozen=True)
class TextVerdict:
    """Why a caption edit is dropped, or None if it passes, with the two similarities that were checked."""

    reason: TextReason | None
    class_similarity: float | None = None
    word_similarity: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether thresholds decided, and not a word that no threshold lets pass."""
        return self.class_similarity is not None or self.word_similarity is not None


@dataclass(frozen=True)
class Choice:
    """The variant chosen from a sweep, and the criterion that it fails, or None if it passes all."""

    index: int
    failed: GateReason | None


def names_label(removed: Iterable[str], added: Iterable[str], label: str) -> bool:
    """Return True if an edit removes any word of the label or adds the whole label."""
    # Removing "double" from "double-decker bus" may change the class, but adding "bus" alone need not name
    # it: so any removed word counts, but only the whole label if added.
    target = _word_set([label])
    return bool(target & _word_set(removed)) or (bool(target) and target <= _word_set(added))


def _word_set(texts: Iterable[str]) -> set[str]:
    # A caption may say "two dogs" for the class "dog".
    return {word.removesuffix("s") for text in texts for word in _WORD.findall(text.casefold())}


def text_filter(
    *,
    label: ArrayLike,
    removed: Sequence[ArrayLike],
    added: Sequence[ArrayLike],
    class_epsilon: float,
    word_epsilon: float,
) -> TextVerdict:
    """Check a caption edit by sentence embeddings (LANCE, section 3.1, "Caption editing").

    Args:
        label: the embedding (d,) of the class name.
        removed: embeddings (d,) of the removed words: of the whole phrase first, then of its parts if it has
            several. Empty if nothing was removed.
        added: the same for the added words.
        class_epsilon: the cosine with the label that removed and added words must stay below.
        word_epsilon: the cosine of removed and added words that an edit must stay below.
    """
    # The worst part decides, because a long phrase dilutes a word in it that names the class.
    nearest = max((float(cosine(words, label)) for words in (*removed, *added)), default=None)
    same = float(cosine(removed[0], added[0])) if removed and added else None
    return TextVerdict(too_similar(nearest, same, class_epsilon, word_epsilon), nearest, same)


def too_similar(
    nearest: float | None, same: float | None, class_epsilon: float, word_epsilon: float
) -> TextReason | None:
    """Name the threshold that an edit's words reach, or None.

    Args:
        nearest: the largest cosine of the label with removed or added words; None without words.
        same: the cosine of the removed with the added words; None if either is missing.
        class_epsilon: the cosine that ``nearest`` must stay below.
        word_epsilon: the cosine that ``same`` must stay below.
    """
    if nearest is not None and nearest >= class_epsilon:
        return "label-in-edit"
    return "edit-too-similar" if same is not None and same >= word_epsilon else None


def gate(
    scores: Scores, thresholds: GateThresholds, criteria: Sequence[GateReason] = GATE_REASONS
) -> GateReason | None:
    """Return the first criterion that the edit fails, or None (LANCE, section 3.2, "Image editing").

    Both images must fit their captions, and the edited image must be nearer to the edited caption than to
    the original one.

    Args:
        scores: the cosines of the edit.
        thresholds: the least cosines that pass.
        criteria: the criteria to check. A placebo has no direction to check; LANCE-R is checked by its own
            criterion only (section 4.1), which an edit without removed or added words fails.
    """
    # The published code keeps large cosines, although the paper sets the threshold on 1 - cosine.
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
    thresholds: GateThresholds,
    selection: Selection,
    criteria: Sequence[GateReason] = GATE_REASONS,
) -> Choice:
    """Choose one variant of a sweep.

    If none passes, the variant that gets furthest through the gate is returned with the criterion it fails.
    Of directions that differ only by rounding the first is taken, so that every processor chooses the same.

    Args:
        sweep: the strength and the scores of each variant.
        thresholds: the least cosines that pass.
        selection: ``paper`` takes the best direction among the variants that pass, ``released`` the largest
            strength that passes.
        criteria: the criteria to check.
    """
    failures = [gate(scores, thresholds, criteria) for _, scores in sweep]
    passing = [index for index, failure in enumerate(failures) if failure is None]
    # The released loop resets its best value in every iteration, so the last variant that passes wins.
    if passing and selection == "released":
        return Choice(max(passing, key=lambda index: sweep[index][0]), None)
    if passing:
        return Choice(_best(sweep, passing), None)
    # Report the reason of the most promising variant: it shows which threshold matters.
    depth = max(map(_depth, failures))
    furthest = _best(sweep, [index for index, failure in enumerate(failures) if _depth(failure) == depth])
    return Choice(furthest, failures[furthest])


def _best(sweep: Sequence[tuple[float, Scores]], indices: Sequence[int]) -> int:
    best = max(sweep[index][1].direction for index in indices)
    return next(index for index in indices if sweep[index][1].direction >= best - _TIED)


def _depth(failure: GateReason | None) -> int:
    return len(_ORDER) if failure is None else _ORDER.index(failure)
