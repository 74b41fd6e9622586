"""The text filter against the grammar: which proposed edits it should pass, and which it passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline_core.types import EditType
from faultline_miniature.training.edit_pairs import succeeds
from faultline_miniature.world.grammar import parse

from .measures import share
from .report import FilterFigures


@dataclass(frozen=True)
class Proposal:
    """A proposed edit of a caption whose picture has a label."""

    label: str
    edit_type: EditType
    caption: str
    edited: str

    @property
    def is_good(self) -> bool:
        """Whether the grammar finds one attribute of the type changed, the class and all else kept."""
        kept = parse(self.caption).get("object_class") == parse(self.edited).get("object_class")
        return kept and succeeds(self.caption, self.edited, self.edit_type)


def judged_filter(proposals: Sequence[Proposal], passes: Sequence[bool]) -> FilterFigures:
    """Precision and recall of a filter whose answers are ``passes``."""
    pairs = list(zip(proposals, passes, strict=True))
    return FilterFigures(
        precision=share([one.is_good for one, passed in pairs if passed]),
        recall=share([passed for one, passed in pairs if one.is_good]),
    )
