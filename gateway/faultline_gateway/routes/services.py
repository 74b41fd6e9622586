"""``/v1/services``: the five services as the gateway sees them."""

from __future__ import annotations

from fastapi import APIRouter

from faultline_core.contract.services import ServiceList
from faultline_gateway.routes.context import Context

router = APIRouter(prefix="/v1/services", tags=["services"])


@router.get("")
async def list_services(context: Context) -> ServiceList:
    """Return the state of each service."""
    return ServiceList(services=await context.health.services())
