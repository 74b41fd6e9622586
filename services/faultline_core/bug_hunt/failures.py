"""When an answer of a classifier counts as a failure: a named criterion, stored with every rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from faultline_core.errors import InvalidRequest

PAPER_TOP = 3
"""How many of the first answers the paper looks at (section 3.1)."""


class _Criterion(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NoRelative(_Criterion):
    """None of the first three answers has the label's parent: the paper's "problematic" failures.

    The paper's words, "any of the top-3 not under the same parent", would call nearly every image a failure;
    its check of crayfish, where lobsters and crabs count as right, is this rule.
    """

    name: Literal["no-relative"] = "no-relative"


class TopOne(_Criterion):
    """The first answer is not the label (the paper's table 1)."""

    name: Literal["top-1"] = "top-1"


class NotInTop(_Criterion):
    """The label is none of the first ``k`` answers (the paper's figure 4 has k = 3)."""

    name: Literal["not-in-top"] = "not-in-top"
    k: int = Field(default=PAPER_TOP, ge=1, le=100)


class LowConfidence(_Criterion):
    """The label's probability is below a threshold."""

    name: Literal["low-confidence"] = "low-confidence"
    below: float = Field(gt=0.0, le=1.0)


class TakenFor(_Criterion):
    """The first answer is one wrong label (the paper's equation 2)."""

    name: Literal["taken-for"] = "taken-for"
    target: str = Field(min_length=1)


Criterion = Annotated[NoRelative | TopOne | NotInTop | LowConfidence | TakenFor, Field(discriminator="name")]


def failures(
    criterion: Criterion,
    probabilities: NDArray[np.floating],
    label: str,
    classes: Sequence[str],
    parents: Mapping[str, str],
) -> NDArray[np.bool_]:
    """Say of each image whether the classifier fails on it.

    Args:
        criterion: what counts as a failure.
        probabilities: one row an image (n, classes), each with a sum of 1.
        label: what the images show.
        classes: the names of the columns.
        parents: the parent of each class; a class without one is its own.

    Returns:
        One flag an image (n,).

    Raises:
        InvalidRequest: the label or the target is no class of the classifier, or the two are equal.
    """
    own = _column(label, classes)
    if isinstance(criterion, LowConfidence):
        return np.asarray(probabilities[:, own] < criterion.below)
    # Stable, so that equal probabilities are ordered as the classes are.
    order = np.argsort(-probabilities, axis=1, kind="stable")
    if isinstance(criterion, TakenFor):
        if criterion.target == label:
            raise InvalidRequest(
                f"the target {label!r} is the label itself; name what it is wrongly taken for"
            )
        return np.asarray(order[:, 0] == _column(criterion.target, classes))
    if isinstance(criterion, NoRelative):
        family = [parents.get(name, name) for name in classes]
        relatives = np.array([each == family[own] for each in family])
        return np.asarray(~relatives[order[:, :PAPER_TOP]].any(axis=1))
    first = criterion.k if isinstance(criterion, NotInTop) else 1
    return np.asarray(~(order[:, :first] == own).any(axis=1))


def _column(name: str, classes: Sequence[str]) -> int:
    if name not in classes:
        known = ", ".join(sorted(classes)[:8])
        raise InvalidRequest(
            f"the classifier has no class {name!r}; it has {known}{' …' * (len(classes) > 8)}"
        )
    return list(classes).index(name)
