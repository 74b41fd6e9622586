"""The outcomes of models that answer in words, beside a label: counted by their codes, never as errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from counterpose_core.errors import NoLabel
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate

OUTCOMES = sorted(kind.code for kind in NoLabel.__subclasses__())


def outcome_of(detail: str) -> str:
    """Return the code that a reason begins with, or nothing where it is none of these outcomes."""
    code = detail.partition(":")[0]
    return code if code in OUTCOMES else ""


def outcome_shares(reasons: Mapping[str, int], images: int) -> dict[str, Estimate]:
    """Return each outcome's share of so many images by its code, from how often each reason was told."""
    counts = Counter[str]()
    for detail, number in reasons.items():
        counts[outcome_of(detail)] += number
    return {code: proportion(counts[code], images) for code in OUTCOMES if counts[code]}
