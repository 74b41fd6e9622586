"""The calls on ``/v1/stress-tests``, built once for both clients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx

from faultline._calls import Call, idempotency_headers, reading, reading_bytes, reading_text, segment
from faultline_core.contract.runs import ItemPage, Run, RunList
from faultline_core.contract.stress_tests import StressTestCreate, StressTestSummary

ROOT = "/v1/stress-tests"
EVENT_STREAM_TIMEOUT_S = 60.0
"""Four heartbeats of the gateway: a stream that is silent for longer is dead."""
FIGURES_TIMEOUT_S = 300.0
"""Bootstraps over thousands of items, and a report with all their pictures, take minutes."""
WAIT_SLICE_S = 25.0
"""Below the 30 s after which many proxies give a silent request up."""


def create_call(body: StressTestCreate, key: str | None) -> Call[Run]:
    """``POST /v1/stress-tests``; the idempotency key makes it safe to send again."""
    return Call(method="POST", path=ROOT, body=body, parse=reading(Run), headers=idempotency_headers(key))


def get_call(run_id: str) -> Call[Run]:
    """``GET /v1/stress-tests/{id}``."""
    return Call(method="GET", path=_path(run_id), parse=reading(Run))


def list_call(after: str | None, *, limit: int = 100) -> Call[RunList]:
    """``GET /v1/stress-tests``."""
    return Call(method="GET", path=ROOT, params=_page(after, limit), parse=reading(RunList))


def wait_call(run_id: str, seconds: float, *, patient: bool = False) -> Call[Run]:
    """``GET /v1/stress-tests/{id}:wait``: answers when the run has ended or the time is up."""
    return Call(
        method="GET",
        path=_path(run_id, ":wait"),
        params={"timeout": seconds},
        parse=reading(Run),
        # The answer may take all of ``seconds`` and still be on time.
        timeout=seconds + 15.0,
        patient=patient,
    )


def wait_calls(run_id: str, seconds: float | None) -> Iterator[Call[Run]]:
    """The calls that wait for so many seconds together, without end when None."""
    left = math.inf if seconds is None else seconds
    while left > 0:
        # Whoever names a time wants an answer by then, not one after minutes of retries.
        yield wait_call(run_id, min(WAIT_SLICE_S, left), patient=seconds is None)
        left -= WAIT_SLICE_S


def cancel_call(run_id: str) -> Call[Run]:
    """``POST /v1/stress-tests/{id}:cancel``; a second one is refused, so it is no call to repeat blindly."""
    return Call(method="POST", path=_path(run_id, ":cancel"), parse=reading(Run), safe=False)


def resume_call(run_id: str) -> Call[Run]:
    """``POST /v1/stress-tests/{id}:resume``; a second one is refused, so it is no call to repeat blindly."""
    return Call(method="POST", path=_path(run_id, ":resume"), parse=reading(Run), safe=False)


def items_call(run_id: str, after: str | None, *, limit: int = 200) -> Call[ItemPage]:
    """``GET /v1/stress-tests/{id}/items``."""
    return Call(
        method="GET", path=_path(run_id, "/items"), params=_page(after, limit), parse=reading(ItemPage)
    )


def summary_call(run_id: str) -> Call[StressTestSummary]:
    """``GET /v1/stress-tests/{id}/summary``."""
    parse = reading(StressTestSummary)
    return Call(method="GET", path=_path(run_id, "/summary"), parse=parse, timeout=FIGURES_TIMEOUT_S)


def report_call(run_id: str) -> Call[str]:
    """``GET /v1/stress-tests/{id}/report``."""
    return Call(method="GET", path=_path(run_id, "/report"), parse=reading_text, timeout=FIGURES_TIMEOUT_S)


def picture_call(ref: str) -> Call[bytes]:
    """``GET /v1/artifacts/{ref}.png``."""
    return Call(method="GET", path=f"/v1/artifacts/{segment(ref)}.png", parse=reading_bytes)


def events_call(run_id: str, last_id: int | None) -> Call[None]:
    """``GET /v1/stress-tests/{id}/events``, from the event after ``last_id`` on."""
    headers = {"accept": "text/event-stream"}
    if last_id is not None:
        headers["last-event-id"] = str(last_id)
    return Call(
        method="GET",
        path=_path(run_id, "/events"),
        headers=headers,
        parse=_empty,
        timeout=EVENT_STREAM_TIMEOUT_S,
    )


def _path(run_id: str, rest: str = "") -> str:
    return f"{ROOT}/{segment(run_id)}{rest}"


def _page(after: str | None, limit: int) -> dict[str, str | int | float]:
    return {"limit": limit} if after is None else {"limit": limit, "after": after}


def _empty(response: httpx.Response) -> None:
    return None
