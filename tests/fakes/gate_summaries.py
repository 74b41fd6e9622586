"""Summaries of gates, and a gate with every option set as the SDK starts it and as its request says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from counterpose_core.contract.gates import (
    CellState,
    GateCell,
    GateConfig,
    GateCreate,
    GateSummary,
    RegressionSet,
    outcome_of,
)
from counterpose_core.contract.runs import RequestCounts
from counterpose_core.types import Cost, Estimate
from fakes.sdk import ok

ERRORS = Estimate(estimate=0.05, low=0.01, high=0.1, n=80)
REGRESSIONS: dict[CellState, Estimate] = {
    "passed": Estimate(estimate=0.0, low=-0.04, high=0.04, n=80),
    "failed": Estimate(estimate=0.3, low=0.2, high=0.4, n=80),
    "inconclusive": Estimate(estimate=0.08, low=0.02, high=0.14, n=80),
    "error": Estimate(estimate=0.0, low=-0.04, high=0.04, n=70),
    "skipped": Estimate(estimate=None, low=None, high=None, n=0),
}
"""A regression for each state of a cell."""

A_SET = RegressionSet(
    baseline="3fa8" + "0" * 28, kind="stress-test", suite="miniature", digest="d" * 64, pairs=160, sources=80,
    changes={"background": 80, "object": 80}, classifiers=["steady"],
)  # fmt: skip


def set_answer() -> httpx.Response:
    """The answer that describes a frozen set."""
    return ok(A_SET.model_dump_json())


def a_cell(
    state: CellState,
    change: str | None = "background",
    classifier: str = "candidate",
    label: str | None = None,
) -> GateCell:
    """Return a cell in a state."""
    return GateCell(
        classifier=classifier, change=change, label=label, state=state, regression=REGRESSIONS[state],
        p_adjusted=None if state in ("skipped", "error") else 0.5, candidate=ERRORS, incumbent=ERRORS,
        drop=None, pairs=80, left_out=10 if state == "error" else 0,
    )  # fmt: skip


def a_gate(cells: Sequence[GateCell], *, ended: bool = True) -> GateSummary:
    """Return the summary of a gate with these cells."""
    outcome = outcome_of(cells) if ended else None
    return GateSummary(
        run_id="run-1",
        config=GateConfig(
            request=GateCreate(baseline=A_SET.baseline, classifiers=["candidate"], seed=0),
            regression_set=A_SET, incumbent="steady", suite="miniature", versions={}, classes=["plate"],
            notes=["a weakness is not searched for"],
        ),
        request_counts=RequestCounts(total=3, pending=0, done=3, filtered=0, failed=0, cancelled=0),
        outcome=outcome, verdict=f"{(outcome or 'running').capitalize()}: as the cells say.",
        cells=list(cells), tested=len(cells), cost=Cost(),
    )  # fmt: skip


def gate(client: Any) -> Any:
    """Start a gate with every option set."""
    return client.gates.create(
        baseline=A_SET, classifiers=["new-resnet"], incumbent="leaning-resnet", tolerance=0.05, seed=3,
        idempotency_key="mine",
    )  # fmt: skip


GATED = {
    "baseline": A_SET.baseline, "digest": A_SET.digest, "classifiers": ["new-resnet"],
    "incumbent": "leaning-resnet", "tolerance": 0.05, "seed": 3,
}  # fmt: skip
