"""The result file of two-way bugs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from counterpose_core.types import Estimate

TOGETHER, ALONE = 0.30, 0.02
"""Falls of a bug that is planted: at least together beyond the worse condition, at most under that one."""

TRUE_TOGETHER = 0.15
"""A claim is true from this fall on, if either condition alone costs at most half of it."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TwoWayBugReport(_Frozen):
    """One bug of two conditions in one run."""

    classifier: str
    bug: str
    object_class: str
    conditions: list[tuple[str, str]]
    drop_together: Estimate = Field(description="True fall of p(true class) beyond the worse condition.")
    drop_alone: Estimate = Field(description="True fall under the worse condition, from the scene with none.")
    is_planted: bool = Field(description="Whether renderings show it: 0.3 or more together, 0.02 alone.")
    met: bool = Field(description="Whether the run saw an original or a kept edit with both conditions.")
    proposed: bool = Field(description="Whether the run tested the two conditions together.")
    named: bool = Field(description="Whether a finding that breaks names both.")


class ConjunctionReport(_Frozen):
    """A conjunction that a run calls proven."""

    roster: str
    classifier: str
    object_class: str
    conditions: list[tuple[str, str]]
    estimate: Estimate
    drop_together: Estimate = Field(description="By rendering, on all images of the class.")
    drop_alone: Estimate
    is_true: bool = Field(
        description="0.15 or more together beyond each alone, and at most half of it alone."
    )


class TwoWayRun(_Frozen):
    """One run of a few classifiers."""

    roster: str
    size: int
    classifiers: int
    kind: str = Field(description="`two-way`, or `others`: controls and bugs of one condition.")
    items: int
    tested: int = Field(description="Conjunctions that were tested, by classifier.")
    proven: int
    false: int = Field(description="Proven conjunctions that renderings do not show.")


class TwoWayFigures(_Frozen):
    """What all runs of one size of roster show."""

    seed: int
    together: int = Field(description="Classifiers that a run tests, at most.")
    planted: int = Field(description="Bugs that renderings show, of `taught`.")
    taught: int
    met: Estimate = Field(description="Share of the planted bugs that a run met.")
    named_of_met: Estimate = Field(description="Share of those met that a finding names.")
    proposed_of_met: Estimate
    precision: Estimate = Field(description="Share of proven conjunctions that renderings show.")
    false_runs: Estimate = Field(description="Share of runs without two-way bugs that prove a false one.")
    false_classifiers: Estimate = Field(description="Share of their classifiers, controls and others.")
    bugs: list[TwoWayBugReport]
    conjunctions: list[ConjunctionReport]
    runs: list[TwoWayRun]


class TwoWayRecord(_Frozen):
    """The result file: the figures of each size of roster, those of the fewest classifiers first."""

    figures: list[TwoWayFigures]
