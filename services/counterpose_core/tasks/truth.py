"""What an image shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self


class Labelled(Protocol):
    """What has a label, and perhaps further ones; an item of a run is one."""

    @property
    def label(self) -> str:
        """Its class."""

    @property
    def labels(self) -> Sequence[str] | None:
        """Its further labels, None without."""


class Truth(NamedTuple):
    """The class of an image, and its further labels."""

    label: str
    labels: Sequence[str] = ()

    @classmethod
    def of(cls, labelled: Labelled) -> Self:
        """Return the truth of an item or of a source."""
        return cls(labelled.label, tuple(labelled.labels or ()))
