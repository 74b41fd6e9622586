"""The clients: retries, errors, waiting, paging; no socket, a transport that answers from a script."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable

import httpx
import pytest

import faultline
from faultline import AsyncClient, Client, RetryPolicy
from faultline_core.contract.base import IDEMPOTENCY_HEADER, PROBLEM_MEDIA_TYPE, Problem
from faultline_core.contract.runs import RequestCounts, Run, RunEvent
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    DeadlineExceeded,
    FaultlineError,
    RateLimited,
    Unauthorized,
    UnknownModel,
    error_classes,
)

Answer = Callable[[httpx.Request], httpx.Response]


class Impatient(RetryPolicy):
    """Retries at once."""

    def pause(self, attempt: int, response: httpx.Response | None) -> float:
        return 0.0


def a_run(state: str = "queued", done: int = 0) -> Run:
    counts = RequestCounts(total=3, pending=3 - done, done=done, filtered=0, failed=0, cancelled=0)
    return Run.model_validate(
        {
            "id": "run-1",
            "kind": "stress-test",
            "state": state,
            "dataset": "demo",
            "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            "request_counts": counts,
            "resolved_config": {},
        }
    )


def ok(body: str) -> httpx.Response:
    return httpx.Response(200, text=body, headers={"content-type": "application/json"})


def problem(error: FaultlineError) -> httpx.Response:
    content = Problem.of(error).model_dump_json()
    return httpx.Response(error.status, text=content, headers={"content-type": PROBLEM_MEDIA_TYPE})


def scripted(*answers: httpx.Response | Exception) -> tuple[Client, list[httpx.Request]]:
    seen: list[httpx.Request] = []
    queue = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = queue.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    http = httpx.Client(transport=httpx.MockTransport(handle), base_url="http://gateway")
    return Client(http=http, retries=Impatient()), seen


def test_the_public_names_are_pinned() -> None:
    assert sorted(faultline.__all__) == faultline.__all__
    assert set(faultline.__all__) >= {"Client", "AsyncClient", "FaultlineError", "StressTest"}


def test_a_created_stress_test_carries_an_idempotency_key_and_its_seed() -> None:
    client, seen = scripted(ok(a_run().model_dump_json()))
    run = client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=7)
    assert run.id == "run-1"
    assert seen[0].headers[IDEMPOTENCY_HEADER]
    assert json.loads(seen[0].content)["seed"] == 7


def test_a_lost_answer_is_sent_again_with_the_same_idempotency_key() -> None:
    client, seen = scripted(httpx.ReadError("gone"), ok(a_run().model_dump_json()))
    client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
    assert len(seen) == 2
    assert seen[0].headers[IDEMPOTENCY_HEADER] == seen[1].headers[IDEMPOTENCY_HEADER]


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_the_class_that_the_gateway_raised_is_raised_again(code: str) -> None:
    error = error_classes()[code]("what was wrong")
    client, seen = scripted(*[problem(error)] * 4)
    with pytest.raises(error_classes()[code], match="what was wrong"):
        client.services.list()
    assert len(seen) == (4 if error.retryable else 1)


def test_a_plain_500_counts_as_unavailable_and_is_retried() -> None:
    client, seen = scripted(httpx.Response(500, text="oops"), ok('{"services": []}'))
    assert client.services.list().services == []
    assert len(seen) == 2


def test_an_answer_that_is_no_json_is_bad_output() -> None:
    client, _ = scripted(ok("<html>"))
    with pytest.raises(BadBackendOutput):
        client.services.list()


def test_an_unreachable_gateway_is_named_after_the_last_attempt() -> None:
    client, seen = scripted(*[httpx.ConnectError("refused")] * 4)
    with pytest.raises(BackendUnavailable, match="refused"):
        client.services.list()
    assert len(seen) == 4


def test_a_time_out_is_a_deadline() -> None:
    client, _ = scripted(*[httpx.ReadTimeout("slow")] * 4)
    with pytest.raises(DeadlineExceeded):
        client.services.list()


def test_retry_after_is_obeyed_and_capped() -> None:
    policy = RetryPolicy()
    assert policy.pause(1, httpx.Response(429, headers={"retry-after": "3"})) == 3.0
    assert policy.pause(1, httpx.Response(429, headers={"retry-after": "999"})) == 8.0
    assert 0.125 <= policy.pause(1, None) <= 0.25
    assert policy.pause(20, None) <= 8.0


@pytest.mark.parametrize(("status", "error"), [(401, Unauthorized), (429, RateLimited)])
def test_a_bare_status_finds_its_class(status: int, error: type[FaultlineError]) -> None:
    client, _ = scripted(*[httpx.Response(status)] * 4)
    with pytest.raises(error):
        client.services.list()


def test_waiting_polls_until_the_run_has_ended() -> None:
    client, seen = scripted(
        ok(a_run().model_dump_json()),
        ok(a_run("in_progress", 1).model_dump_json()),
        ok(a_run("completed", 3).model_dump_json()),
    )
    run = client.stress_tests.create(dataset="demo", classifiers=["a"], seed=0).wait()
    assert run.ended
    assert [request.url.path for request in seen[1:]] == ["/v1/stress-tests/run-1:wait"] * 2


def sse(*events: RunEvent) -> httpx.Response:
    text = ": heartbeat\n\n" + "".join(f"id: {e.id}\ndata: {e.model_dump_json()}\n\n" for e in events)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


def an_event(number: int, state: str) -> RunEvent:
    return RunEvent.model_validate(
        {"id": number, "run_id": "run-1", "state": state, "request_counts": a_run().request_counts}
    )


def test_a_broken_event_stream_goes_on_after_the_last_event_seen() -> None:
    client, seen = scripted(
        ok(a_run().model_dump_json()),
        sse(an_event(1, "in_progress"), an_event(2, "in_progress")),
        sse(an_event(3, "completed")),
        ok(a_run("completed", 3).model_dump_json()),
    )
    run = client.stress_tests.create(dataset="demo", classifiers=["a"], seed=0)
    assert [event.id for event in run.events()] == [1, 2, 3]
    assert seen[2].headers["last-event-id"] == "2"
    assert run.ended


def test_items_come_page_by_page_with_the_cursor() -> None:
    item = {
        "id": "i1",
        "ordinal": 0,
        "kind": "reconstruction",
        "source_id": "s",
        "source_image": "0" * 64,
        "label": "bus",
        "state": "done",
    }
    pages = [{"items": [item], "after": "c1"}, {"items": [{**item, "id": "i2"}], "after": None}]
    client, seen = scripted(ok(a_run().model_dump_json()), *[ok(json.dumps(page)) for page in pages])
    assert [item.id for item in client.stress_tests.get("run-1").items()] == ["i1", "i2"]
    assert seen[2].url.params["after"] == "c1"


async def test_the_async_client_sends_the_same_request() -> None:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return (
            problem(UnknownModel("no classifier is named 'x'"))
            if len(requests) == 2
            else ok(a_run().model_dump_json())
        )

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle), base_url="http://gateway")
    async with AsyncClient(http=http, retries=Impatient()) as client:
        run = await client.stress_tests.create(dataset="demo", classifiers=["x"], seed=1)
        assert run.id == "run-1"
        with pytest.raises(UnknownModel, match="'x'"):
            await client.stress_tests.get("other")
    sync, seen = scripted(ok(a_run().model_dump_json()))
    sync.stress_tests.create(dataset="demo", classifiers=["x"], seed=1)
    assert seen[0].content == requests[0].content
