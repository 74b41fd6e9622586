"""The context of the routes, built once in `app`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ParamSpec, Protocol, TypeVar

from fastapi import Depends, Header, Path, Query, Request
from pydantic import BeforeValidator, Field
from starlette.convertors import StringConvertor, register_url_convertor

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.services import CircuitState, ServiceState, StoreUse
from counterpose_core.text_form import TextForm
from counterpose_gateway.access.key_ring import KeyRing
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.metrics import Metrics
from counterpose_gateway.http.request_head import Caller, caller_in
from counterpose_gateway.http.sessions import Sessions
from counterpose_gateway.http.signed_urls import SignedUrls
from counterpose_gateway.images.own_blobs import OwnBlobs
from counterpose_gateway.jobs.ray_cluster import Clusters
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.progress.following import FollowedRuns
from counterpose_gateway.progress.status import RunStatus
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.store.budget import StoreBudget

P = ParamSpec("P")
R = TypeVar("R")


class Segment(StringConvertor):
    """A part of a path without a colon: ``j1:cancel``, as addresses were before, is no id."""

    regex = "[^/:]+"


register_url_convertor("segment", Segment())


class HealthReader(Protocol):
    """Knows the state of the services.

    ready = all(service.ready for service in await health.services() if service.in_suite)
    """

    async def services(self) -> list[ServiceState]:
        """Return the state of each service."""

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return whether this process still calls each service, asking none."""


@dataclass(frozen=True, kw_only=True)
class GatewayContext(RunContext):
    """Everything that a route may use.

    A route gets what `of` returns: ``ledger`` and ``status`` show the objects of the caller's tenant alone.
    """

    ledger: Ledger
    settings: GatewaySettings
    health: HealthReader
    metrics: Metrics
    status: RunStatus
    followed: FollowedRuns
    sessions: Sessions
    ring: KeyRing
    links: SignedUrls
    clusters: Clusters
    room: Room
    budget: StoreBudget | None = None
    tenant: str = DEFAULT_TENANT
    views: dict[Caller, GatewayContext] = field(default_factory=dict, repr=False)

    async def in_image_turn(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what ``work`` on images returns; it waits for the tenant's turn, and then has a thread.

        Who is cancelled while waiting leaves; who is cancelled later has the turn until the thread ends.
        """
        async with self.room.images.held(self.tenant):
            working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                await asyncio.wait({working})
                raise

    def of(self, caller: Caller) -> GatewayContext:
        """Return the context of a caller's requests; it is made once.

        Who came with a key may be on another machine: what 127.0.0.1 is there, no service reaches.
        """
        known = self.views.get(caller)
        if known is None:
            ledger, tenant = self.ledger.of(caller.tenant), caller.tenant
            trusted = self.functions_allowed and (
                not caller.has_key or self.settings.allow_functions is not None
            )
            known = replace(
                self, tenant=tenant, ledger=ledger, status=self.status.of(ledger),
                functions_allowed=trusted, views={},
            )  # fmt: skip
            self.views[caller] = known
        return known

    @property
    def own_blobs(self) -> OwnBlobs:
        """The blobs that the caller may name: those of its tenant's objects."""
        return OwnBlobs(self.store, self.ledger.blobs)

    @property
    def store_use(self) -> StoreUse | None:
        """What the store keeps that can be computed again, where this process looks at it."""
        return None if self.budget is None else self.budget.use

    def forget(self) -> None:
        """Forget what this process keeps in memory of runs; it is made again when it is asked for."""
        self.cache.clear()
        self.status.clear()
        if self.joined is not None:
            self.joined.clear()

    def delete_run(self, run_id: str) -> None:
        """Delete an ended run with what is kept of it here; raises as `Runs.delete`."""
        self.ledger.runs.delete(run_id)
        if self.columns is not None:
            self.columns.remove(run_id)


# Not a plain function: FastAPI would call it in a thread, on every request.
async def _context_of(request: Request) -> GatewayContext:
    context = request.app.state.context
    assert isinstance(context, GatewayContext)  # `create_app` put it there
    return context.of(caller_in(request.scope))


def _in_digits(value: object) -> object:
    # Pydantic also takes "+0.0" and "1_0" for integers, which no JSON document would.
    if isinstance(value, str) and re.fullmatch("-?[0-9]+", value) is None:
        raise ValueError("must be an integer, written in digits alone")
    return value


Context = Annotated[GatewayContext, Depends(_context_of)]


async def _submitting(request: Request, context: Context) -> GatewayContext:
    """Refuse a new run of a tenant without quota, whatever else is wrong with the request."""
    allowance = await asyncio.to_thread(context.ledger.access.allowance)
    if (refusal := allowance.refusal()) is not None:
        key = request.headers.get(IDEMPOTENCY_HEADER)
        if key is None or not await asyncio.to_thread(context.ledger.runs.has_key, key):
            raise refusal
    return replace(context, allowance=allowance)


Submitting = Annotated[GatewayContext, Depends(_submitting)]
"""The context of a request for a new run, with the tenant's allowance."""
IdempotencyKey = Annotated[
    Annotated[
        str,
        Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$"),
        TextForm("must be at most 255 characters of ASCII, without spaces"),
    ]
    | None,
    Header(
        alias=IDEMPOTENCY_HEADER,
        description="Key of the caller's choice; a request that is sent again with it does its work once "
        "and gets the first answer.",
    ),
]
RunId = Annotated[str, Path(description="Id of the run.")]
After = Annotated[
    str | None, Query(max_length=512, description="Cursor from the page before; the first page needs none.")
]
IN_DIGITS = BeforeValidator(_in_digits)
"""For an integer in a path, query or header, behind its bounds, or the OpenAPI document lacks them."""
PageSize = Annotated[int, Query(ge=1, le=1000, description="Most entries of a page."), IN_DIGITS]
