"""Circuit breakers: a dead service is left alone, tried by one call, and nothing is lost meanwhile."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from fakes.service_http import Time, answering, caller_over, refusal
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.editor import GenerateItem, GenerateRequest
from faultline_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    DeadlineExceeded,
    FaultlineError,
    RateLimited,
    UnknownModel,
)
from faultline_gateway.circuits import FAILURES_TO_OPEN, REST_SECONDS, Circuit
from faultline_gateway.service_clients import SERVICE_NAMES, HttpHealth, services_of

ASKED = CaptionRequest(items=[CaptionItem(image="a" * 64)])
GENERATE = GenerateRequest(items=[GenerateItem(prompt="a sled", seed=0)])
CAPTION = {"value": {"text": "a sled", "log_likelihood": -1.0, "tokens": 2}}
GOOD = httpx.Response(200, json={"outcomes": [CAPTION], "model": {"id": "m", "revision": "0"}})
DOWN = httpx.ConnectError("refused")


def opened(time: Time) -> Circuit:
    circuit = Circuit(time)
    for _ in range(FAILURES_TO_OPEN):
        circuit.failed()
    return circuit


def test_it_opens_after_five_failures_in_a_row_and_not_before() -> None:
    circuit = Circuit(Time())
    states = []
    for _ in range(5):
        circuit.failed()
        states.append(circuit.state)
    assert states == ["closed"] * 4 + ["open"]


def test_an_answer_between_failures_begins_the_count_again() -> None:
    circuit = Circuit(Time())
    for _ in range(4):
        circuit.failed()
    circuit.answered()
    for _ in range(4):
        circuit.failed()
    assert circuit.state == "closed"


def test_an_open_circuit_says_how_long_to_wait() -> None:
    time = Time()
    circuit = opened(time)
    time.now += 2.0
    assert circuit.admit() == pytest.approx(REST_SECONDS - 2.0)


def test_after_its_rest_it_lets_one_trial_through_and_no_second() -> None:
    time = Time()
    circuit = opened(time)
    time.now += REST_SECONDS
    assert circuit.state == "half-open"
    assert circuit.admit() == 0.0
    assert circuit.admit() == REST_SECONDS


def test_a_trial_that_succeeds_closes_it() -> None:
    time = Time()
    circuit = opened(time)
    time.now += REST_SECONDS
    circuit.admit()
    circuit.answered()
    assert circuit.state == "closed"
    assert [circuit.admit() for _ in range(3)] == [0.0] * 3


def test_a_trial_that_fails_opens_it_for_another_rest() -> None:
    time = Time()
    circuit = opened(time)
    time.now += REST_SECONDS
    circuit.admit()
    time.now += 1.0
    circuit.failed()
    assert circuit.admit() == REST_SECONDS


def test_a_trial_that_never_ends_does_not_keep_the_next_one_out() -> None:
    time = Time()
    circuit = opened(time)
    time.now += REST_SECONDS
    circuit.admit()
    time.now += REST_SECONDS
    assert circuit.admit() == 0.0


async def test_a_dead_service_is_not_hammered_by_many_callers() -> None:
    time = Time()
    handle, seen = answering(DOWN)
    captioner = services_of(caller_over(handle, time)).captioner
    calls = [captioner.caption(ASKED) for _ in range(40)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, BackendUnavailable) for answer in answers)
    # 40 callers came in before the first failure was known; after that one trial a rest is left.
    assert len(seen) <= 40 + time.now / REST_SECONDS + 1


async def test_a_caller_that_waits_out_the_rest_loses_nothing() -> None:
    time = Time()
    handle, seen = answering(*[DOWN] * FAILURES_TO_OPEN, GOOD)
    captioner = services_of(caller_over(handle, time)).captioner
    answer = await captioner.caption(ASKED)
    assert answer.outcomes[0].unwrap().text == "a sled"
    assert len(seen) == FAILURES_TO_OPEN + 1
    assert sum(time.pauses[FAILURES_TO_OPEN - 1 :]) >= REST_SECONDS


async def test_a_caller_without_patience_is_told_at_once_and_asks_nobody() -> None:
    time = Time()
    handle, seen = answering(DOWN)
    captioner = services_of(caller_over(handle, time, patience_seconds=0.0)).captioner
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await captioner.caption(ASKED)
    with pytest.raises(BackendUnavailable, match="left alone") as refused:
        await captioner.caption(ASKED)
    assert refused.value.retryable
    assert len(seen) == FAILURES_TO_OPEN


async def state_after(trouble: httpx.Response | Exception, error: type[FaultlineError]) -> str:
    """The captioner's circuit after eight calls that met this trouble."""
    handle, _ = answering(trouble)
    caller = caller_over(handle, patience_seconds=0.0)
    for _ in range(8):
        with pytest.raises(error):
            await services_of(caller).captioner.caption(ASKED)
    return caller.circuits()["captioner"]


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (DOWN, BackendUnavailable),
        (httpx.Response(503, text="draining"), BackendUnavailable),
        (refusal(BackendUnavailable("loading")), BackendUnavailable),
    ],
)
async def test_a_service_that_is_away_opens_its_circuit(
    trouble: httpx.Response | Exception, error: type[FaultlineError]
) -> None:
    assert await state_after(trouble, error) == "open"


async def test_a_service_that_hangs_opens_its_circuit() -> None:
    handle, seen = answering(httpx.ReadTimeout("slow"))
    caller = caller_over(handle, patience_seconds=0.0)
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(DeadlineExceeded):
            await services_of(caller).captioner.caption(ASKED)
    assert caller.circuits() == {"captioner": "open"}
    with pytest.raises(BackendUnavailable, match="left alone"):
        await services_of(caller).captioner.caption(ASKED)
    assert len(seen) == FAILURES_TO_OPEN


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (refusal(UnknownModel("no model 'x'")), UnknownModel),
        (refusal(RateLimited("the queue is full")), RateLimited),
        (httpx.Response(418, text="a teapot"), BadBackendOutput),
        (httpx.Response(200, text="<html>"), BadBackendOutput),
    ],
)
async def test_a_service_that_answers_is_alive_whatever_it_says(
    trouble: httpx.Response, error: type[FaultlineError]
) -> None:
    assert await state_after(trouble, error) == "closed"


async def test_one_dead_service_holds_up_no_other() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if "/captioner/" in str(request.url):
            raise DOWN
        return httpx.Response(200, json={"classifiers": []})

    caller = caller_over(handle, patience_seconds=0.0)
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(BackendUnavailable):
            await services_of(caller).captioner.caption(ASKED)
    await services_of(caller).classifiers.list_classifiers()
    assert caller.circuits() == {"captioner": "open", "classifiers": "closed"}


async def test_opening_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(logging.Logger, "handle", lambda _, record: said.append(record.getMessage()))
    handle, _ = answering(DOWN)
    with pytest.raises(BackendUnavailable):
        await services_of(caller_over(handle)).captioner.caption(ASKED)
    assert [line for line in said if "keeps failing" in line] == [
        "the captioner keeps failing: calls wait 5 s for a trial"
    ]


async def test_health_tells_the_circuit_and_is_asked_even_while_it_is_open() -> None:
    handle, seen = answering(
        *[DOWN] * FAILURES_TO_OPEN, httpx.Response(200, json={"service": "x", "ready": True})
    )
    caller = caller_over(handle, patience_seconds=0.0)
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(BackendUnavailable):
            await services_of(caller).editor.generate(GENERATE)
    health = HttpHealth(caller)
    assert health.circuits() == dict.fromkeys(SERVICE_NAMES, "closed") | {"editor": "open"}
    found = await health.services()
    assert len(seen) == FAILURES_TO_OPEN + len(SERVICE_NAMES)
    assert {one.circuit for one in found} == {"closed"}
    assert all(one.ready for one in found)
