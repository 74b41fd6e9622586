"""What only gates have: regression sets."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_core.contract.gates import RegressionSet, RegressionSetOf
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods.gate.regression_set import freeze
from counterpose_gateway.routes.context import Context

router = APIRouter(prefix="/v1", tags=["gates"], route_class=StrictRoute)


@router.post("/gates/freeze")
async def freeze_regression_set(body: RegressionSetOf, context: Context) -> RegressionSet:
    """Return the counterfactuals of an ended run as a regression set, by their digest; stores nothing."""
    return (await freeze(body.baseline, context)).told
