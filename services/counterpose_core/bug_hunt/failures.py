"""Which answers of a classifier a criterion counts as failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.failure_criteria import (
    PAPER_TOP,
    Criterion,
    LowConfidence,
    NoRelative,
    NotInTop,
    TakenFor,
)
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean


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
            f"the classifier has no class {name!r}{did_you_mean(name, classes)}; it has "
            f"{known}{' …' * (len(classes) > 8)}"
        )
    return list(classes).index(name)
