"""``/v1/classifiers``: the models that can be tested."""

from __future__ import annotations

from fastapi import APIRouter

from faultline_core.contract.classifiers import ClassifierList
from faultline_gateway.routes.context import Context

router = APIRouter(prefix="/v1/classifiers", tags=["classifiers"])


@router.get("")
async def list_classifiers(context: Context) -> ClassifierList:
    """List the classifiers that can be tested."""
    return await context.services.classifiers.list_classifiers()
