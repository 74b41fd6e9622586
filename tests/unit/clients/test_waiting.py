"""Following a run survives what happens to connections; a run is never taken for ended because one broke."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from counterpose_core.contract.base import Problem
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    ImagesOutsideSuite,
    InternalError,
    NotFound,
    Unauthorized,
)
from fakes.sdk import (
    Answer,
    Session,
    a_run,
    an_event,
    broken_stream_answer,
    counts,
    ok,
    problem,
    run_answer,
    sse_text,
    stream_answer,
)

EVENTS = "/v1/runs/run-1/events"
WAIT = "/v1/runs/run-1/wait"
GONE = httpx.ConnectError("refused")


def following(kind: str, *answers: Answer, endless: bool = False) -> tuple[Session, Any]:
    """A session that has taken up a run, and its handle."""
    session = Session(kind, run_answer(), *answers, endless=endless)
    return session, session(lambda client: client.stress_tests.get("run-1"))


def events(session: Session, run: Any) -> list[tuple[int, int]]:
    """What is yielded: ids, and how many items were done."""
    found = session(lambda _: run.events())
    return [(event.id, event.request_counts.done) for event in found]


def paths(session: Session) -> list[str]:
    """What was asked for after the run itself."""
    return [request.url.path for request in session.seen[1:]]


def test_events_are_read_to_the_end_of_the_run_and_the_run_is_refreshed(kind: str) -> None:
    stream = stream_answer(an_event(1, done=1), an_event(2, "completed", 3))
    session, run = following(kind, stream, run_answer("completed", 3))
    assert events(session, run) == [(1, 1), (2, 3)]
    assert run.ended
    assert session.seen[1].headers["accept"] == "text/event-stream"
    assert "last-event-id" not in session.seen[1].headers


@pytest.mark.fault("F18")
@pytest.mark.parametrize("cut", [stream_answer, broken_stream_answer], ids=["ended", "reset"])
def test_a_broken_stream_continues_after_the_last_event(kind: str, cut: Any) -> None:
    session, run = following(
        kind,
        cut(an_event(1), an_event(2, done=1)),
        stream_answer(an_event(3, "completed", 3)),
        run_answer("completed", 3),
    )
    assert events(session, run) == [(1, 0), (2, 1), (3, 3)]
    assert session.seen[2].headers["last-event-id"] == "2"
    assert paths(session)[:2] == [EVENTS, EVENTS]


def test_an_event_that_a_proxy_repeats_is_not_yielded_twice(kind: str) -> None:
    both = stream_answer(an_event(1), an_event(2, "completed", 3))
    session, run = following(kind, stream_answer(an_event(1)), both, run_answer("completed", 3))
    assert events(session, run) == [(1, 0), (2, 3)]


def test_the_run_is_polled_where_no_stream_can_be_opened(kind: str) -> None:
    session, run = following(
        kind,
        httpx.Response(502),
        run_answer("in_progress", 1),
        stream_answer(),
        run_answer("in_progress", 1),
        httpx.ReadTimeout("silent"),
        run_answer("completed", 3),
        run_answer("completed", 3),
    )
    assert events(session, run) == [(0, 1), (0, 3)]
    assert paths(session) == [EVENTS, WAIT, EVENTS, WAIT, EVENTS, WAIT, "/v1/runs/run-1"]
    assert session.seen[2].url.params["timeout"] == "5.0"


def test_a_polled_event_has_the_last_id_seen(kind: str) -> None:
    session, run = following(
        kind, stream_answer(an_event(7, done=1)), stream_answer(), run_answer("completed", 3),
        run_answer("completed", 3),
    )  # fmt: skip
    assert events(session, run) == [(7, 1), (7, 3)]


def test_an_invalid_event_breaks_the_stream_but_not_the_reader(kind: str) -> None:
    lie = httpx.Response(200, text="data: {}\n\n", headers={"content-type": "text/event-stream"})
    session, run = following(kind, lie, run_answer("completed", 3), run_answer("completed", 3))
    assert events(session, run) == [(0, 3)]


def test_heartbeats_are_not_yielded(kind: str) -> None:
    text = ": heartbeat\n\n" * 3 + sse_text(an_event(1, "cancelled"))
    stream = httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})
    session, run = following(kind, stream, run_answer("cancelled"))
    assert events(session, run) == [(1, 0)]


@pytest.mark.fault("F3")
def test_the_client_waits_for_a_gateway_that_restarts(kind: str) -> None:
    session, run = following(
        kind, GONE, *[GONE] * 12, run_answer("in_progress", 2), stream_answer(an_event(5, "completed", 3)),
        run_answer("completed", 3),
    )  # fmt: skip
    assert events(session, run) == [(0, 2), (5, 3)]
    assert sum(session.clock.pauses) > 30


def test_the_client_gives_up_on_a_gateway_that_stays_away(kind: str) -> None:
    session, run = following(kind, GONE, endless=True)
    with pytest.raises(BackendUnavailable, match="refused"):
        events(session, run)
    assert len(session.seen) == 1 + 1 + 20
    assert 60 <= sum(session.clock.pauses) <= 180


@pytest.mark.parametrize("error", [NotFound("no run 'run-1'"), Unauthorized("no key")])
def test_a_rejected_stream_is_raised_and_not_retried(kind: str, error: Any) -> None:
    session, run = following(kind, problem(error, request_id="r-9"))
    with pytest.raises(type(error)) as caught:
        events(session, run)
    assert caught.value.request_id == "r-9"
    assert len(session.seen) == 2


def test_a_reader_may_stop_in_the_middle() -> None:
    session, run = following("sync", stream_answer(an_event(1), an_event(2), an_event(3)))
    progress = run.events()
    assert next(progress).id == 1
    progress.close()
    assert len(session.seen) == 2


def test_waiting_polls_in_slices_until_the_run_has_ended(kind: str) -> None:
    session, run = following(kind, run_answer("in_progress", 1), run_answer("completed", 3))
    assert session(lambda _: run.wait()) is run
    assert run.ended
    assert [request.url.params["timeout"] for request in session.seen[1:]] == ["25.0", "25.0"]
    assert paths(session) == [WAIT, WAIT]


def test_waiting_for_a_run_that_has_ended_sends_nothing(kind: str) -> None:
    session = Session(kind, run_answer("cancelled"))
    run = session(lambda client: client.stress_tests.get("run-1"))
    session(lambda _: run.wait())
    assert len(session.seen) == 1


def test_waiting_ends_at_the_timeout(kind: str) -> None:
    session, run = following(kind, *[run_answer("in_progress", 1) for _ in range(2)])
    session(lambda _: run.wait(timeout=40))
    assert not run.ended
    assert [request.url.params["timeout"] for request in session.seen[1:]] == ["25.0", "15.0"]


def test_waiting_survives_a_restart_of_the_gateway(kind: str) -> None:
    session, run = following(kind, *[GONE] * 15, run_answer("completed", 3))
    assert session(lambda _: run.wait()).ended


def test_waiting_with_a_timeout_does_not_retry_for_minutes(kind: str) -> None:
    session, run = following(kind, GONE, endless=True)
    with pytest.raises(BackendUnavailable):
        session(lambda _: run.wait(timeout=5))
    assert sum(session.clock.pauses) < 5


@pytest.mark.parametrize("state", ["completed", "completed_with_failures", "failed", "cancelled"])
def test_every_final_state_ends_waiting(kind: str, state: Any) -> None:
    session, run = following(kind, run_answer(state))
    assert session(lambda _: run.wait(check=False)).state == state


@pytest.mark.parametrize("state", ["completed", "completed_with_failures", "cancelled"])
def test_waiting_for_a_run_that_did_not_fail_raises_nothing(kind: str, state: Any) -> None:
    session, run = following(kind, run_answer(state))
    assert session(lambda _: run.wait()).state == state


@pytest.mark.parametrize(
    ("problem", "error", "why"),
    [
        (ImagesOutsideSuite("8 of 8 images lie outside"), ImagesOutsideSuite, "8 of 8 images lie outside"),
        (None, InternalError, "no item ended well"),
    ],
)
def test_waiting_for_a_run_that_failed_raises_why(
    kind: str, problem: CounterposeError | None, error: type[CounterposeError], why: str
) -> None:
    told = None if problem is None else Problem.of(problem, request_id="r-1")
    failed = a_run("failed").model_copy(update={"problem": told})
    session, run = following(kind, ok(failed.model_dump_json()))
    with pytest.raises(error, match=f"run run-1 failed: {why}"):
        session(lambda _: run.wait())
    assert run.state == "failed"


@pytest.mark.parametrize("state", ["queued", "in_progress", "finalizing", "cancelling"])
def test_no_other_state_ends_waiting(kind: str, state: Any) -> None:
    session, run = following(kind, run_answer(state), run_answer("completed", 3))
    session(lambda _: run.wait())
    assert len(session.seen) == 3


def test_a_handle_prints_its_run(kind: str) -> None:
    _, run = following(kind)
    assert repr(run).endswith("StressTest(id='run-1', state='queued')")
    assert (run.id, run.ended, run.run) == ("run-1", False, a_run())
    assert run.run.request_counts == counts(0)
