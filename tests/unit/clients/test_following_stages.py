"""Following a run in stages: finalizing is not its end, and its total may grow."""

from __future__ import annotations

from counterpose._cli.follow import failures
from counterpose_core.contract.base import Problem
from counterpose_core.contract.runs import RunEvent
from counterpose_core.errors import InternalError
from counterpose_core.types import RunState
from fakes.sdk import Session, a_run, counts, run_answer, stream_answer


def told(number: int, state: RunState, done: int, total: int) -> RunEvent:
    return RunEvent(id=number, run_id="run-1", state=state, request_counts=counts(done, total))


def test_a_run_is_followed_through_every_stage_to_its_end(kind: str) -> None:
    first = (told(1, "in_progress", 2, 3), told(2, "finalizing", 3, 3))
    second = (told(3, "in_progress", 3, 8), told(4, "finalizing", 8, 8), told(5, "completed", 8, 8))
    session = Session(
        kind, run_answer(), stream_answer(*first), stream_answer(*second), run_answer("completed", 3)
    )
    run = session(lambda client: client.stress_tests.get("run-1"))
    found = session(lambda _: run.events())
    assert [(event.state, event.request_counts.total) for event in found] == [
        ("in_progress", 3), ("finalizing", 3), ("in_progress", 8), ("finalizing", 8), ("completed", 8),
    ]  # fmt: skip
    assert session.seen[2].headers["last-event-id"] == "2"


def test_a_run_that_failed_between_two_stages_says_why_although_no_item_failed() -> None:
    problem = Problem.of(InternalError("stage 2 could not be planned: unexpected ZeroDivisionError"))
    run = a_run("failed", 3).model_copy(update={"problem": problem})
    assert failures(run, None) == problem.detail
    assert failures(a_run("cancelled", 3), None) == "no item failed"
