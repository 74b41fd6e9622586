"""``/v1/runs``: runs of every kind in one list; all else is asked of a run under its own kind."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from counterpose_core.contract.runs import RunList
from counterpose_core.types import RunKind
from counterpose_gateway.routes.context import After, Context, PageSize
from counterpose_gateway.routes.runs import OfDataset, OfParent, OfState

router = APIRouter(prefix="/v1/runs", tags=["runs"])

OfKind = Annotated[RunKind | None, Query(alias="kind", description="Only runs of this kind.")]


@router.get("")
def list_runs(
    context: Context,
    kind: OfKind = None,
    state: OfState = None,
    dataset: OfDataset = None,
    parent: OfParent = None,
    after: After = None,
    limit: PageSize = 50,
) -> RunList:
    """List runs of every kind, newest first, a page at a time."""
    return context.ledger.runs.page(
        kind=kind, state=state, dataset=dataset, parent=parent, after=after, limit=limit
    )
