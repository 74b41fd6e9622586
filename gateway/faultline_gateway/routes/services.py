"""``/v1/services``: the five services as the gateway sees them."""

from __future__ import annotations

from fastapi import APIRouter

from faultline_core.contract.services import ServiceList
from faultline_gateway.parts import Parts

router = APIRouter(prefix="/v1/services", tags=["services"])


@router.get("")
async def list_services(parts: Parts) -> ServiceList:
    """Say how each service is."""
    return ServiceList(services=await parts.health.services())
