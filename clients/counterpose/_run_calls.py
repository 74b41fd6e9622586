"""The calls that every kind of run supports, built once for all kinds and both clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from counterpose._calls import (
    Call,
    idempotency_headers,
    reading,
    reading_bytes,
    reading_nothing,
    reading_text,
    segment,
)
from counterpose_core.contract.base import RequestBody, ResponseBody
from counterpose_core.contract.runs import PageOfItems, Run, RunItem, RunList, RunRename, RunResume
from counterpose_core.contract.signed_urls import SignedUrl, SignedUrlCreate
from counterpose_core.contract.spending import LargerLimits
from counterpose_core.errors import CounterposeError, error_for
from counterpose_core.kinds import KINDS, RunKind

EVENT_STREAM_TIMEOUT_S = 60.0
"""Four heartbeats of the gateway: a stream silent for longer is dead."""
FIGURES_TIMEOUT_S = 300.0
"""Bootstraps over thousands of items, and a report with all their images, take minutes."""
EXPORT_TIMEOUT_S = 3600.0
"""The gateway writes every image before it sends a byte: a hundred thousand take most of an hour."""
WAIT_SLICE_S = 25.0
"""Below the 30 s after which many proxies drop a silent request."""

RUNS = "/v1/runs"
FIRST_SCREEN = {"part": "first-screen"}
"""The report's verdict, its images and the models alone."""

AnyItem = TypeVar("AnyItem", bound=RunItem[Any])
Summary = TypeVar("Summary", bound=ResponseBody)
Body = TypeVar("Body", bound=BaseModel)

Params = Mapping[str, str | int | float]


@dataclass(frozen=True)
class RunCalls(Generic[AnyItem, Summary]):
    """The calls on runs of one kind, with the types of its items and its summary.

    RunCalls("stress-test", Item, StressTestSummary).get("run-1")
    """

    kind: RunKind
    item: type[AnyItem]
    figures: type[Summary]

    def create(self, body: RequestBody, key: str | None) -> Call[Run]:
        """``POST /v1/<method>``; the idempotency key makes it safe to send again."""
        # Models look at images first.
        return Call(
            "POST",
            self.root,
            reading(Run),
            body=body,
            headers=idempotency_headers(key),
            timeout=FIGURES_TIMEOUT_S,
        )

    def get(self, run_id: str) -> Call[Run]:
        """``GET /v1/runs/{id}``."""
        return one_run(run_id)

    def wait(self, run_id: str, seconds: float, *, patient: bool = False) -> Call[Run]:
        """``GET /v1/runs/{id}/wait``: responds when the run has ended or the time is up."""
        # The response may take all of ``seconds`` and still be on time.
        return Call(
            "GET",
            self.path(run_id, "/wait"),
            reading(Run),
            params={"timeout": seconds},
            timeout=seconds + 15.0,
            patient=patient,
        )

    def waits(
        self, run_id: str, seconds: float | None, *, slice_s: float = WAIT_SLICE_S
    ) -> Iterator[Call[Run]]:
        """Yield calls of ``slice_s`` that together wait for ``seconds``, or without end if None."""
        left = math.inf if seconds is None else seconds
        while left > 0:
            # A caller who names a time wants a response by then, not after minutes of retries.
            yield self.wait(run_id, min(slice_s, left), patient=seconds is None)
            left -= slice_s

    def cancel(self, run_id: str) -> Call[Run]:
        """``POST /v1/runs/{id}/cancel``; a second one is refused, so it is not retried blindly."""
        return Call("POST", self.path(run_id, "/cancel"), reading(Run), safe=False)

    def resume(
        self, run_id: str, functions: Mapping[str, str] | None = None, spending: LargerLimits | None = None
    ) -> Call[Run]:
        """``POST /v1/runs/{id}/resume``; a second one is refused, so it is not retried blindly."""
        body = (
            RunResume(functions=dict(functions or {}), spending=spending) if functions or spending else None
        )
        return Call("POST", self.path(run_id, "/resume"), reading(Run), body=body, safe=False)

    def rename(self, run_id: str, name: str | None) -> Call[Run]:
        """``PATCH /v1/runs/{id}``: a name for people."""
        return Call("PATCH", self.path(run_id), reading(Run), body=RunRename(name=name))

    def delete(self, run_id: str) -> Call[None]:
        """``DELETE /v1/runs/{id}``; a second one finds nothing, so it is not retried blindly."""
        return Call("DELETE", self.path(run_id), reading_nothing, safe=False)

    def items(self, run_id: str, after: str | None, *, limit: int = 200) -> Call[PageOfItems[AnyItem]]:
        """``GET /v1/runs/{id}/items``."""
        parse = reading(PageOfItems[self.item])  # type: ignore[name-defined]  # known at run time only
        return Call("GET", self.path(run_id, "/items"), parse, params=_page(after, limit))

    def one_item(self, run_id: str, item_id: str) -> Call[AnyItem]:
        """``GET /v1/runs/{id}/items/{item_id}``."""
        return Call("GET", self.path(run_id, f"/items/{segment(item_id)}"), reading(self.item))

    def results(self, run_id: str, since: int) -> Call[None]:
        """``GET /v1/runs/{id}/results``, starting at the item with ordinal ``since``."""
        params = {"from": since} if since else {}
        return self._streamed(run_id, "/results", params=params, timeout=FIGURES_TIMEOUT_S)

    def summary(self, run_id: str, params: Params | None = None) -> Call[Summary]:
        """``GET /v1/runs/{id}/summary``."""
        return self.read(run_id, "/summary", self.figures, params)

    def report(self, run_id: str, params: Params | None = None) -> Call[str]:
        """``GET /v1/runs/{id}/report``."""
        return Call(
            "GET", self.path(run_id, "/report"), reading_text, params=params or {}, timeout=FIGURES_TIMEOUT_S
        )

    def share(self, run_id: str, seconds: float) -> Call[SignedUrl]:
        """``POST /v1/signed-urls`` for the report."""
        body = SignedUrlCreate(path=self.path(run_id, "/report"), expires_in=round(seconds))
        return Call("POST", "/v1/signed-urls", reading(SignedUrl), body=body)

    def export(self, run_id: str, params: Params) -> Call[None]:
        """``GET /v1/runs/{id}/export``."""
        return self._streamed(run_id, "/export", params=params, timeout=EXPORT_TIMEOUT_S)

    def events(self, run_id: str, last_id: int | None) -> Call[None]:
        """``GET /v1/runs/{id}/events``, starting after the event ``last_id``."""
        headers = {"accept": "text/event-stream"}
        if last_id is not None:
            headers["last-event-id"] = str(last_id)
        return self._streamed(run_id, "/events", headers=headers, timeout=EVENT_STREAM_TIMEOUT_S)

    def read(self, run_id: str, rest: str, body: type[Body], params: Params | None = None) -> Call[Body]:
        """``GET /v1/runs/{id}<rest>``: figures, which may take minutes."""
        return Call(
            "GET", self.path(run_id, rest), reading(body), params=params or {}, timeout=FIGURES_TIMEOUT_S
        )

    @property
    def root(self) -> str:
        """The path where runs of this kind are created."""
        return f"/v1/{KINDS[self.kind].path}"

    def path(self, run_id: str, rest: str = "") -> str:
        """The path of one run."""
        return f"{RUNS}/{segment(run_id)}{rest}"

    def _streamed(
        self,
        run_id: str,
        rest: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> Call[None]:
        return Call(
            "GET",
            self.path(run_id, rest),
            reading_nothing,
            params=params or {},
            headers=headers or {},
            timeout=timeout,
        )


def listed(kind: RunKind | None, after: str | None, *, limit: int = 100) -> Call[RunList]:
    """``GET /v1/runs``: runs of one kind, or of every kind if None, newest first."""
    of_kind = {} if kind is None else {"kind": kind}
    return Call("GET", RUNS, reading(RunList), params=_page(after, limit) | of_kind)


def one_run(run_id: str) -> Call[Run]:
    """``GET /v1/runs/{id}``, of any kind."""
    return Call("GET", f"{RUNS}/{segment(run_id)}", reading(Run))


def failure_of(run: Run) -> CounterposeError | None:
    """Return what ended a failed run, for raising; None for any other run."""
    if run.state != "failed":
        return None
    code, why = ("", "no item ended well") if run.problem is None else (run.problem.code, run.problem.detail)
    return error_for(code, f"run {run.id} failed: {why}")


def image_call(ref: str) -> Call[bytes]:
    """``GET /v1/artifacts/{ref}.png``."""
    return Call("GET", f"/v1/artifacts/{segment(ref)}.png", reading_bytes)


def _page(after: str | None, limit: int) -> dict[str, str | int | float]:
    return {"limit": limit} if after is None else {"limit": limit, "after": after}
