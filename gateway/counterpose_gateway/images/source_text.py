"""What a source says beside its pixels: its names, caption, group, labels and pair, each checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PureWindowsPath

from counterpose_core.contract.datasets import Pairing
from counterpose_core.contract.recipes import IDENTITY, PLACEBO
from counterpose_core.errors import ClassMapMismatch, InvalidRequest
from counterpose_core.text.plain_text import check_caption, check_name, check_text, check_words
from counterpose_gateway.images.folder import RawSource

LONGEST_FILENAME, LONGEST_LABEL, LONGEST_CAPTION, LONGEST_GROUP, LONGEST_CHANGE = 255, 200, 2000, 200, 80
LONGEST_REASON = 200
"""Characters, as for uploads: a folder's files reach the ledger without passing the contract."""
RESERVED = (IDENTITY, PLACEBO, "original")
"""What the images are called that stand beside a change."""


def check_source(source: RawSource, classes: Sequence[str] | None) -> None:
    """Check all that a source says; ``classes`` are the allowed labels, None for any.

    Raises:
        RequestError: something is refused; the pointer names the field.
    """
    check_text(source.filename, field="filename", most=LONGEST_FILENAME)
    check_name(source.label, field="label", most=LONGEST_LABEL)
    if source.group is not None:
        check_words(source.group, field="group", most=LONGEST_GROUP)
    if source.caption is not None:
        check_caption(source.caption, most=LONGEST_CAPTION)
    if source.pair is not None:
        _check_pair(source.pair)
    _check_labels(source, classes)
    if _is_path_elsewhere(source.filename):
        raise InvalidRequest(
            f"the file name {source.filename!r} is a path; send the name alone", pointer="/filename"
        )
    if classes is not None and source.label not in classes:
        detail = (
            f"the label {source.label!r} is not a class of the dataset; use one of {', '.join(classes[:5])}"
        )
        raise ClassMapMismatch(detail, pointer="/label")


def _check_labels(source: RawSource, classes: Sequence[str] | None) -> None:
    for label in source.labels:
        check_name(label, field="labels", most=LONGEST_LABEL)
        if label == source.label or source.labels.count(label) > 1:
            raise InvalidRequest(f"the label {label!r} is given twice", pointer="/labels")
        if classes is not None and label not in classes:
            raise ClassMapMismatch(
                f"the label {label!r} is not a class of the dataset; use one of {', '.join(classes[:5])}",
                pointer="/labels",
            )


def _check_pair(pair: Pairing) -> None:
    if pair.not_made is not None:
        check_text(pair.not_made, field="pair/not_made", most=LONGEST_REASON)
    if (change := pair.change) is None:
        return
    check_words(change, field="pair/change", most=LONGEST_CHANGE)
    if change in RESERVED:
        detail = f"the change {change!r} has a name of Counterpose's own; call it otherwise"
        raise InvalidRequest(detail, pointer="/pair/change")


def _is_path_elsewhere(filename: str) -> bool:
    # Windows paths have both slashes and drives: an export unpacked there must stay in its folder too.
    path = PureWindowsPath(filename)
    return bool(path.anchor) or ".." in path.parts
