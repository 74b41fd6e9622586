"""``/v1/classifiers``: the models that can be tested."""

from __future__ import annotations

from fastapi import APIRouter

from faultline_core.contract.classifiers import ClassifierList
from faultline_gateway.parts import Parts

router = APIRouter(prefix="/v1/classifiers", tags=["classifiers"])


@router.get("")
async def list_classifiers(parts: Parts) -> ClassifierList:
    """Name the classifiers that can be tested."""
    return await parts.services.classifiers.list_classifiers()
