"""A transfer in one sentence."""

from __future__ import annotations

from counterpose_core.bug_hunt.comparison import LEVEL
from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCell, TransferSummary
from counterpose_core.types import FINAL_RUN_STATES


def verdict(run: Run, summary: TransferSummary) -> str:
    """Say which pair transfers most, or that none is proven to."""
    so_far = "" if run.state in FINAL_RUN_STATES else " so far"
    others = [each for each in summary.cells if not each.by_choice and each.rate.estimate is not None]
    if not others:
        return f"Nothing{so_far} to compare: every answer is of a classifier that chose the images."
    proven = [each for each in others if each.p_adjusted is not None and each.p_adjusted <= LEVEL]
    if not proven:
        return f"No transfer is proven{so_far}: {_said(max(others, key=_rate))}."
    return (
        f"Failures transfer in {len(proven)} of {len(others)} pairs{so_far}: {_said(max(proven, key=_rate))}."
    )


def _rate(cell: TransferCell) -> float:
    return cell.rate.estimate or 0.0


def _said(cell: TransferCell) -> str:
    alone = cell.baseline.estimate
    beside = "" if alone is None else f", {100 * alone:.0f} % of the labels alone (n={cell.baseline.n})"
    return (
        f"{cell.column} fails on {cell.failures} of {cell.rate.n} images that fool {cell.row} "
        f"({100 * _rate(cell):.0f} %){beside}"
    )
