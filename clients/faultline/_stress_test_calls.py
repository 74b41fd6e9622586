"""The calls on ``/v1/stress-tests``, built once for both clients."""

from __future__ import annotations

import httpx

from faultline._calls import Call, idempotency_headers, reading, reading_bytes, reading_text
from faultline_core.contract.runs import ItemPage, Run, RunEvent, RunList
from faultline_core.contract.stress_tests import StressTestCreate, StressTestSummary

ROOT = "/v1/stress-tests"
EVENT_STREAM_TIMEOUT_S = 60.0


def _empty(response: httpx.Response) -> None:
    return None


def create_call(body: StressTestCreate, key: str | None) -> Call[Run]:
    """``POST /v1/stress-tests``; the idempotency key makes it safe to send again."""
    return Call(method="POST", path=ROOT, body=body, parse=reading(Run), headers=idempotency_headers(key))


def get_call(run_id: str) -> Call[Run]:
    """``GET /v1/stress-tests/{id}``."""
    return Call(method="GET", path=f"{ROOT}/{run_id}", parse=reading(Run))


def list_call(*, after: str | None = None, limit: int = 100) -> Call[RunList]:
    """``GET /v1/stress-tests``."""
    params: dict[str, str | int | float] = {"limit": limit}
    if after is not None:
        params["after"] = after
    return Call(method="GET", path=ROOT, params=params, parse=reading(RunList))


def wait_call(run_id: str, seconds: float) -> Call[Run]:
    """``GET /v1/stress-tests/{id}:wait``: answers when the run has ended or the time is up."""
    return Call(
        method="GET",
        path=f"{ROOT}/{run_id}:wait",
        params={"timeout": seconds},
        parse=reading(Run),
        timeout=seconds + 15.0,
    )


def cancel_call(run_id: str) -> Call[Run]:
    """``POST /v1/stress-tests/{id}:cancel``."""
    return Call(method="POST", path=f"{ROOT}/{run_id}:cancel", parse=reading(Run))


def resume_call(run_id: str) -> Call[Run]:
    """``POST /v1/stress-tests/{id}:resume``."""
    return Call(method="POST", path=f"{ROOT}/{run_id}:resume", parse=reading(Run))


def items_call(run_id: str, *, after: str | None = None, limit: int = 200) -> Call[ItemPage]:
    """``GET /v1/stress-tests/{id}/items``."""
    params: dict[str, str | int | float] = {"limit": limit}
    if after is not None:
        params["after"] = after
    return Call(method="GET", path=f"{ROOT}/{run_id}/items", params=params, parse=reading(ItemPage))


def summary_call(run_id: str) -> Call[StressTestSummary]:
    """``GET /v1/stress-tests/{id}/summary``."""
    return Call(
        method="GET", path=f"{ROOT}/{run_id}/summary", parse=reading(StressTestSummary), timeout=300.0
    )


def report_call(run_id: str) -> Call[str]:
    """``GET /v1/stress-tests/{id}/report``."""
    return Call(method="GET", path=f"{ROOT}/{run_id}/report", parse=reading_text, timeout=300.0)


def picture_call(ref: str) -> Call[bytes]:
    """``GET /v1/artifacts/{ref}.png``."""
    return Call(method="GET", path=f"/v1/artifacts/{ref}.png", parse=reading_bytes)


def events_call(run_id: str, last_id: int | None) -> Call[None]:
    """``GET /v1/stress-tests/{id}/events``, from the event after ``last_id`` on."""
    headers = {"accept": "text/event-stream"}
    if last_id is not None:
        headers["last-event-id"] = str(last_id)
    return Call(
        method="GET",
        path=f"{ROOT}/{run_id}/events",
        headers=headers,
        parse=_empty,
        timeout=EVENT_STREAM_TIMEOUT_S,
    )


def event_of(data: str) -> RunEvent | None:
    """Read one server-sent event's data; comments and heartbeats give None."""
    return RunEvent.model_validate_json(data) if data else None
