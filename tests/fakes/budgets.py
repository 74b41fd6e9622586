"""Budgets that are refused, raised as a client raises them."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.contract.spending import SpendingLimits, Spent
from counterpose_gateway.records.spending import Allotment
from fakes.suite_servers import images_suite


async def spent_budget(folder: Path) -> None:
    """Ask others for more than a budget has left."""
    limits = Allotment(images=2)
    reserved = limits.refusal({"editor": Spent(images=2)}, "editor", Spent(images=1))
    assert reserved is not None
    raise reserved


async def missing_price(folder: Path) -> None:
    """Bound what nobody can reckon."""
    suite = images_suite("https://images.example/v1")
    Allotment.required(SpendingLimits(usd=1.0), suite)
