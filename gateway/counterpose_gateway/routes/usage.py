"""``/v1/usage``: what the caller's tenant has used this month."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_core.contract.usage import Usage
from counterpose_gateway.routes.context import Context

router = APIRouter(prefix="/v1/usage", tags=["usage"])


@router.get("")
def get_usage(context: Context) -> Usage:
    """Return what the runs of the caller's tenant have used this month, and its quota."""
    return context.ledger.access.usage()
