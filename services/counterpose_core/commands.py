"""Commands that answers suggest as the next step, the same in reports, in Markdown and in the terminal."""

from __future__ import annotations

from counterpose_core.contract.findings import Finding

SHORT_ID = 8
"""Digits of an id that a person reads and types; a gateway has far fewer than 2**32 runs."""

PROVE_IMAGES = 20
"""Images of a proof unless one asks for another number."""


def prove_command(run_id: str, number: int, images: int = PROVE_IMAGES) -> str:
    """The command that makes more pairs of images for a finding of a run."""
    return f"counterpose prove {run_id[:SHORT_ID]} --finding {number} --images {images}"


def next_command(run_id: str, finding: Finding) -> str | None:
    """The command that would settle a finding; None where it is settled, or names no words to test."""
    open_still = finding.state in ("suspected", "cannot-tell")
    if not open_still or not finding.number or not (finding.removed or finding.added):
        return None
    return prove_command(run_id, finding.number)
