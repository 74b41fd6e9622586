"""When an answer of a classifier counts as a failure: a named criterion, stored with every rate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from counterpose_core.contract.base import told_apart_by
from counterpose_core.field_descriptions import Described

PAPER_TOP = 3
"""How many of the first answers the paper looks at (Wiles et al., section 3.1)."""


class _Criterion(Described):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra=told_apart_by("name")
    )


class NoRelative(_Criterion):
    """None of the first three answers has the label's parent: the paper's "problematic" failures.

    The paper's words, "any of the top-3 not under the same parent", would call nearly every image a failure;
    its check of crayfish, where lobsters and crabs count as right, is this rule.
    """

    name: Literal["no-relative"] = "no-relative"
    """Name of the criterion."""
    levels: int = Field(default=1, ge=1, le=8)
    """How many levels above an ImageNet-1k class its parent stands in WordNet: 2 takes flies and bees for
    relatives, as insects. Parents that are given have no levels."""


class TopOne(_Criterion):
    """The first answer is not the label (the paper's table 1)."""

    name: Literal["top-1"] = "top-1"
    """Name of the criterion."""


class NotInTop(_Criterion):
    """The label is none of the first ``k`` answers (the paper's figure 4 has k = 3)."""

    name: Literal["not-in-top"] = "not-in-top"
    """Name of the criterion."""
    k: int = Field(default=PAPER_TOP, ge=1, le=100)
    """Number of first answers."""


class LowConfidence(_Criterion):
    """The label's probability is below a threshold."""

    name: Literal["low-confidence"] = "low-confidence"
    """Name of the criterion."""
    below: float = Field(gt=0.0, le=1.0)
    """Probability below which it is a failure."""


class TakenFor(_Criterion):
    """The first answer is one wrong label (the paper's equation 2)."""

    name: Literal["taken-for"] = "taken-for"
    """Name of the criterion."""
    target: str = Field(min_length=1, max_length=200)
    """The wrong label."""


Criterion = Annotated[NoRelative | TopOne | NotInTop | LowConfidence | TakenFor, Field(discriminator="name")]
