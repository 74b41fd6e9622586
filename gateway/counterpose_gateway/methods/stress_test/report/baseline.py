"""The baseline in the report: what each classifier answers to the images as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from counterpose_core.contract.baselines import ClassifierBaseline, Mistake
from counterpose_gateway.reports.images import Album, Inline


class BaselineRow(NamedTuple):
    """A classifier's answers in words, and its surest mistakes with their images."""

    told: ClassifierBaseline
    mistakes: list[tuple[Mistake, Inline | None]]


def baseline_rows(found: Sequence[ClassifierBaseline], album: Album) -> list[BaselineRow]:
    """Return a row for each classifier."""
    return [
        BaselineRow(each, [(mistake, album.original(mistake.image)) for mistake in each.mistakes])
        for each in found
    ]
