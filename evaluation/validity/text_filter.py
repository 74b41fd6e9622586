"""The text filter compared with the grammar: which proposed edits it should pass, and which it passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.types import EditType
from counterpose_miniature.training.edit_pairs import succeeds
from counterpose_miniature.world.grammar import parse

from .measures import clustered_share
from .report import FilterFigures


@dataclass(frozen=True)
class Proposal:
    """A proposed edit of a caption whose image has a label."""

    label: str
    edit_type: EditType
    caption: str
    edited: str

    @property
    def is_good(self) -> bool:
        """Whether the grammar finds one attribute of the type changed, the class and all else kept."""
        kept = parse(self.caption).get("object_class") == parse(self.edited).get("object_class")
        return kept and succeeds(self.caption, self.edited, self.edit_type)


def judged_filter(
    proposals: Sequence[Proposal], passes: Sequence[bool], generator: np.random.Generator
) -> FilterFigures:
    """Precision and recall of a filter whose answers are ``passes``; captions are resampled."""
    pairs = list(zip(proposals, passes, strict=True))
    return FilterFigures(
        precision=clustered_share(((one.caption, one.is_good) for one, passed in pairs if passed), generator),
        recall=clustered_share(((one.caption, passed) for one, passed in pairs if one.is_good), generator),
    )
