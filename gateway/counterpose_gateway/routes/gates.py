"""``/v1/gates``: candidates against the incumbent on frozen counterfactuals; other routes are every run's."""

from __future__ import annotations

from counterpose_core.contract.gates import RegressionSet, RegressionSetOf
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.methods.gate.regression_set import freeze
from counterpose_gateway.routes.context import Context
from counterpose_gateway.routes.runs import run_router

router = run_router(GATE)


@router.post(":freeze")
async def freeze_regression_set(body: RegressionSetOf, context: Context) -> RegressionSet:
    """Return the counterfactuals of an ended run as a regression set, by their digest; stores nothing."""
    return (await freeze(body.baseline, context)).told
