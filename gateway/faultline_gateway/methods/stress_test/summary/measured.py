"""What was measured of findings: `python -m evaluation.two_stages.measured` writes it from the results."""

from __future__ import annotations

from faultline_core.types import Estimate

SUSPECTED_PRECISION: Estimate | None = None
"""Share of changes told as suspected that rendered truth shows to cost the class more than 0.05."""
