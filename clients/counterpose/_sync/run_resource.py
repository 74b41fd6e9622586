# Generated from clients/counterpose/_async/run_resource.py by clients/blocking_half.py; do not edit.
"""What ``client.<kind>s`` offers for runs of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from counterpose._calls import Call, reading
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import FIGURES_TIMEOUT_S
from counterpose._run_ids import LAST, is_beginning, last_run, only_run
from counterpose._sync.paging import pages
from counterpose._sync.run_handle import AnyRun
from counterpose._transport_protocol import Sender
from counterpose_core.contract.base import RequestBody
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.runs import Run

R = TypeVar("R", bound=AnyRun)
E = TypeVar("E", bound=BaseModel)


class RunResource(Generic[R]):
    """Runs of one kind, with blocking calls; each kind has its own ``_handle``."""

    _handle: type[R]

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, run_id: str) -> R:
        """Return a run of this kind by its id, by the beginning of its id, or by ``@last``.

        Raises:
            NotFound: there is no such run.
            InvalidRequest: several ids begin like this.
        """
        calls = self._handle._calls
        if run_id == LAST:
            newest = self._sender.send(calls.list(None, limit=1))
            return self._handle(self._sender, last_run(newest.runs, calls.kind))
        if is_beginning(run_id):
            return self._handle(self._sender, only_run(run_id, [each.run for each in self.list()]))
        return self._handle(self._sender, calls.require(self._sender.send(calls.get(run_id))))

    def list(self) -> Iterator[R]:
        """Iterate over all runs of this kind, newest first."""
        for page in pages(self._sender, self._handle._calls.list):
            for run in page.runs:
                yield self._handle(self._sender, run)

    def _create(self, body: RequestBody, key: str | None) -> R:
        return self._take(self._handle._calls.create(body, key))

    def _take(self, call: Call[Run]) -> R:
        return self._handle(self._sender, self._sender.send(call))

    def _named(self, classifiers: Sequence[AnyClassifier], *, specs: bool = False) -> dict[str, Any]:
        """Serve the functions among the classifiers; return the fields of a request that name them all."""
        named = self._sender.name_functions(self._sender.serve_functions(classifiers))
        # A gateway older than these fields takes a request without functions.
        functions = {"functions": named.functions} if named.functions else {}
        written = {"function_specs": named.specs} if specs and named.specs else {}
        return {"classifiers": named.names, **functions, **written}

    def _estimate(
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
        call = Call(method="POST", path=path, body=body, parse=parse, timeout=FIGURES_TIMEOUT_S)
        return self._sender.send(call)
