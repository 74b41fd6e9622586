"""``POST /v1/<method>``: create a run; everything after is asked of it under ``/v1/runs``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Depends, Response

from counterpose_core.contract.runs import Run
from counterpose_core.kinds import KINDS, RunKind
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes.context import Context, IdempotencyKey, RunId, Submitting
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.submission import submit

RUN_RETRY_AFTER = "2"


def accepted(run: Run, response: Response) -> Run:
    """Set the location of a new run, and the time after which to poll it."""
    response.headers["location"] = f"/v1/runs/{run.id}"
    response.headers["retry-after"] = RUN_RETRY_AFTER
    return run


def only(kind: RunKind) -> Any:
    """Return the dependency of a route that runs of one kind alone have: others are not found there."""

    async def check(run_id: RunId, context: Context) -> None:
        await context.status.read(run_id, kind)

    return Depends(check)


def _creating(method: AnyMethod) -> Callable[..., Awaitable[Run]]:
    async def create(body: Any, context: Submitting, response: Response, key: IdempotencyKey = None) -> Run:
        """Create a run; it is durable before the answer, and a worker takes it up."""
        return accepted(await submit(method, body, context, key), response)

    create.__annotations__["body"] = method.create
    return create


router = APIRouter(prefix="/v1", route_class=StrictRoute)
for _kind in KINDS.values():
    router.post(
        f"/{_kind.path}",
        status_code=202,
        name=f"create_{_kind.name.replace('-', '_')}",
        tags=[f"{_kind.title.lower()}s"],
    )(_creating(METHODS[_kind.name]))
