"""What a shard holds: images with their labels, and files that are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.datasets import RejectedSource
from counterpose_core.errors import ClassMapMismatch, InvalidRequest, RequestError
from counterpose_core.text.plain_text import strip_invisible
from counterpose_gateway.images.folder import RawSource

LARGEST_TEXT = 1 << 20
"""Bytes of a label's, a caption's or an archive's own text."""


@dataclass(frozen=True)
class Sample:
    """An image, or a file that is refused; ``following`` is where in the shard the next one begins."""

    source: RawSource | RejectedSource
    following: int


def refused(filename: str, error: RequestError) -> RejectedSource:
    """Name a file that holds no image to take in."""
    return RejectedSource(
        filename=strip_invisible(filename)[:255], code=error.code, detail=error.detail
    )  # fmt: skip


def class_of(label: object, names: Sequence[str] | None) -> str:
    """Return the class that a shard's label stands for: a name, or a number with a name.

    Raises:
        ClassMapMismatch: the number has no name.
        InvalidRequest: it is neither.
    """
    if isinstance(label, str) and not _is_number(label):
        return label.strip()
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise InvalidRequest(f"the label {label!r} is neither a name nor a number")
    number = int(label)
    if names is None:
        # A digit in every caption and prompt would say nothing about the image.
        raise ClassMapMismatch(f"the label {number} is a number without a name; give the import `classes`")
    if not 0 <= number < len(names):
        raise ClassMapMismatch(
            f"the label {number} has no name: {len(names)} classes are numbered from 0 to {len(names) - 1}"
        )
    return names[number]


def _is_number(text: str) -> bool:
    stripped = text.strip()
    return stripped.isascii() and stripped.removeprefix("-").isdigit() and len(stripped) < 10
