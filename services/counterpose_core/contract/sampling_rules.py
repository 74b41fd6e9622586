"""How many images a bug hunt draws for a failure rate: three rules, under the hunt's budget."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from counterpose_core.contract.base import told_apart_by
from counterpose_core.field_descriptions import Described

PAPER_FAILURES = 20
"""The number of target failures at which the paper stops (Wiles et al., section 4.1)."""

RuleName = Literal["fixed", "inverse", "sequential"]


class _SamplingRule(Described):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra=told_apart_by("name")
    )


class FixedNumber(_SamplingRule):
    """As many images as the budget gives, whatever they show."""

    name: Literal["fixed"] = "fixed"
    """Name of the rule."""


class UntilFailures(_SamplingRule):
    """Until so many images have failed (inverse sampling, the paper's), and at most the budget's images.

    Its rates are unbiased, of held-out images too, whether or not they prove anything.
    """

    name: Literal["inverse"] = "inverse"
    """Name of the rule."""
    failures: int = Field(default=PAPER_FAILURES, ge=2, le=10_000)
    """Number of failures at which drawing ends."""


class UntilDecided(_SamplingRule):
    """Until the rate is known to lie on one side of a threshold, and at most the budget's images.

    Of held-out images: until the description is proven, or can no longer be.
    """

    name: Literal["sequential"] = "sequential"
    """Name of the rule."""
    threshold: float = Field(default=0.02, ge=0.0, lt=1.0)
    """Failure rate of the label alone below which no description is searched any more."""


SamplingRule = Annotated[FixedNumber | UntilFailures | UntilDecided, Field(discriminator="name")]
