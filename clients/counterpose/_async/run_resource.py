"""What ``client.<kind>s`` offers for runs of one kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from counterpose._async.paging import pages
from counterpose._async.run_handle import AsyncAnyRun
from counterpose._calls import Call, reading
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import FIGURES_TIMEOUT_S, listed, one_run
from counterpose._run_ids import LAST, absent_run, is_beginning, last_run, only_run
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.base import RequestBody
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.runs import Run
from counterpose_core.errors import NotFound
from counterpose_core.kinds import RunKind

R = TypeVar("R", bound=AsyncAnyRun)
E = TypeVar("E", bound=BaseModel)


async def named_run(sender: AsyncSender, name: str, kind: RunKind | None) -> Run:
    """Return a run by its id, by the beginning of its id, or by ``@last``, of one kind or of any if None.

    Raises:
        NotFound: there is no such run.
        InvalidRequest: several ids begin like this.
    """
    if name == LAST:
        newest = await sender.send(listed(kind, None, limit=1))
        return last_run(newest.runs, kind)
    if is_beginning(name):
        return only_run(
            name, [run async for page in pages(sender, partial(listed, kind)) for run in page.runs]
        )
    try:
        run = await sender.send(one_run(name))
    except NotFound as refused:
        absent = absent_run(name)
        absent.request_id = refused.request_id
        raise absent from None
    if kind is not None and run.kind != kind:
        raise NotFound(f"run {run.id!r} is a {run.kind}, not a {kind}; `client.runs` has every kind")
    return run


class AsyncRunResource(Generic[R]):
    """Runs of one kind, with awaitable calls; each kind has its own ``_handle``."""

    _handle: type[R]

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def get(self, run_id: str) -> R:
        """Return a run of this kind by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
        """
        return self._handle(self._sender, await named_run(self._sender, run_id, self._handle._calls.kind))

    async def list(self) -> AsyncIterator[R]:
        """Iterate over all runs of this kind, newest first."""
        async for page in pages(self._sender, partial(listed, self._handle._calls.kind)):
            for run in page.runs:
                yield self._handle(self._sender, run)

    async def _create(self, body: RequestBody, key: str | None) -> R:
        return await self._take(self._handle._calls.create(body, key))

    async def _take(self, call: Call[Run]) -> R:
        return self._handle(self._sender, await self._sender.send(call))

    def _named(self, classifiers: Sequence[AnyClassifier], *, specs: bool = False) -> dict[str, Any]:
        """Serve the functions among the classifiers; return the fields of a request that name them all."""
        named = self._sender.name_functions(self._sender.serve_functions(classifiers))
        # A gateway older than these fields takes a request without functions.
        functions = {"functions": named.functions} if named.functions else {}
        written = {"function_specs": named.specs} if specs and named.specs else {}
        return {"classifiers": named.names, **functions, **written}

    async def _estimate(
        self,
        request: type[RequestBody],
        estimate: type[E],
        classifiers: Sequence[AnyClassifier],
        settings: Mapping[str, Any],
    ) -> E:
        """Ask ``POST /v1/<kind>s/estimate``, which refuses what the run would refuse."""
        calls = self._handle._calls
        body = checked(request, {"seed": 0} | dict(settings) | self._named(classifiers))
        path = f"{calls.root}/estimate"
        parse = reading(estimate)
        # Models look at images first.
        return await self._sender.send(Call("POST", path, parse, body=body, timeout=FIGURES_TIMEOUT_S))
