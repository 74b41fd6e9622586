"""``client.runs``: a run of any kind by its id, by the beginning of its id, or as the last one."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from counterpose import NotFound, StressTest
from counterpose._cli.kinds import RunsOfKind, runs_of
from counterpose._cli.main import command_of
from counterpose_core.errors import InvalidRequest
from counterpose_core.kinds import KINDS, RunKind
from fakes.sdk import URL, Session, a_run, a_summary, ok, problem, summary_answer

FIRST, SECOND, THIRD = "aa" + "0" * 30, "ab" + "0" * 30, "b" * 32
NONE = ok({"runs": []})
ABSENT = problem(NotFound("no such run"))


RUNS: tuple[tuple[str, RunKind], ...] = (
    (SECOND, "dataset-interface"), (THIRD, "shift-benchmark"), (FIRST, "stress-test"),
)  # fmt: skip


def body_of(run_id: str) -> dict[str, Any]:
    """A run of these as the gateway answers it."""
    body: dict[str, Any] = json.loads(a_run(run_id=run_id, kind=dict(RUNS)[run_id]).model_dump_json())
    return body


def page(*runs: str) -> httpx.Response:
    """A page of some of these, as `GET /v1/runs` answers: the newest first."""
    return ok({"runs": [body_of(run) for run, _ in RUNS if run in (runs or dict(RUNS))]})


def got(client: str, run: str, *answers: httpx.Response, **options: Any) -> tuple[Any, list[str]]:
    """The run, and the paths that were asked for."""
    session = Session(client, *answers)
    found = session(lambda opened: opened.runs.get(run, **options))
    return found, [request.url.path for request in session.seen]


def test_runs_of_every_kind_are_listed_newest_first(kind: str) -> None:
    found = Session(kind, page())(lambda client: client.runs.list())
    assert [run.id for run in found] == [SECOND, THIRD, FIRST]
    names = [type(run).__name__.removeprefix("Async") for run in found]
    assert names == ["DatasetInterface", "ShiftBenchmark", "StressTest"]


def test_a_listed_run_is_one_of_its_kind_with_a_short_repr(kind: str) -> None:
    session = Session(kind, page(FIRST), summary_answer(a_summary()))
    (run,) = session(lambda client: client.stress_tests.list())
    assert repr(run).removeprefix("Async") == f"StressTest(id={FIRST!r}, state='queued')"
    assert session(lambda _: run.summary()).run_id == "run-1"


@pytest.mark.parametrize("name", ["aa", "@last"])
def test_a_kind_s_own_runs_are_named_as_short(kind: str, name: str) -> None:
    session = Session(kind, page(FIRST))
    found = session(lambda client: client.stress_tests.get(name))
    assert (found.id, type(found).__name__.removeprefix("Async")) == (FIRST, "StressTest")
    assert session.seen[0].url.path == "/v1/runs"
    assert session.seen[0].url.params["kind"] == "stress-test"


def test_a_short_id_that_no_run_of_the_kind_has_is_named(kind: str) -> None:
    with pytest.raises(NotFound, match="no run 'bb': `counterpose runs list` lists the runs"):
        Session(kind, page(FIRST))(lambda client: client.stress_tests.get("bb"))


def test_one_kind_of_run_is_listed_alone(kind: str) -> None:
    session = Session(kind, page(SECOND))
    assert [run.id for run in session(lambda client: client.runs.list(kind="dataset-interface"))] == [SECOND]
    assert session.seen[0].url.params["kind"] == "dataset-interface"


def test_a_whole_id_is_asked_once_whatever_its_kind(kind: str) -> None:
    found, paths = got(kind, SECOND, ok(body_of(SECOND)))
    assert type(found).__name__.endswith("DatasetInterface")
    assert paths == [f"/v1/runs/{SECOND}"]


def test_a_run_of_another_kind_is_none_of_a_kind_s_own(kind: str) -> None:
    told = f"run '{SECOND}' is a dataset-interface, not a stress-test"
    with pytest.raises(NotFound, match=told):
        Session(kind, ok(body_of(SECOND)))(lambda client: client.stress_tests.get(SECOND))
    with pytest.raises(NotFound, match=told):
        got(kind, SECOND, ok(body_of(SECOND)), kind="stress-test")


def test_the_beginning_of_an_id_is_enough(kind: str) -> None:
    found, _ = got(kind, "ab", page())
    assert (found.id, found.run.kind) == (SECOND, "dataset-interface")


def test_the_beginning_of_several_ids_is_refused_with_all_of_them(kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"'a' begins the ids of 2 runs: {SECOND}, {FIRST}"):
        got(kind, "a", page())


def test_the_last_run_is_the_newest_of_all_kinds(kind: str) -> None:
    found, paths = got(kind, "@last", page())
    assert found.id == SECOND
    assert paths == ["/v1/runs"]


def test_the_last_run_of_a_kind_is_asked_of_that_kind(kind: str) -> None:
    found, _ = got(kind, "@last", page(FIRST), kind="stress-test")
    assert found.id == FIRST


@pytest.mark.parametrize("run", ["c", "@last", "c" * 32, "c-1"])
def test_an_absent_run_is_named(kind: str, run: str) -> None:
    with pytest.raises(NotFound, match=run):
        got(kind, run, ABSENT if len(run) in (3, 32) else NONE)


def test_a_run_found_by_its_beginning_can_be_followed() -> None:
    session = Session("sync", page(), ok(a_run("completed", 3, FIRST).model_dump_json()))
    run = session(lambda client: client.runs.get("aa"))
    assert isinstance(run, StressTest)
    assert run.wait().run.state == "completed"


def test_the_last_run_of_a_kind_that_has_none_names_the_kind(kind: str) -> None:
    with pytest.raises(NotFound, match="there is no shift-benchmark yet"):
        got(kind, "@last", NONE, kind="shift-benchmark")


def test_a_run_is_deleted_and_named_under_its_own_kind(kind: str) -> None:
    session = Session(kind, ok(body_of(SECOND)), httpx.Response(204))
    session(lambda client: client.runs.delete(SECOND))
    assert (session.seen[-1].method, session.seen[-1].url.path) == (
        "DELETE",
        f"/v1/runs/{SECOND}",
    )


@pytest.mark.parametrize("name", ["before the retraining", None])
def test_a_name_is_sent_as_it_is(kind: str, name: str | None) -> None:
    body = body_of(FIRST)
    session = Session(kind, ok(body), ok(body | {"name": name}))
    found = session(lambda client: client.stress_tests.get(FIRST))
    assert session(lambda _: found.rename(name)).run.name == name
    assert (session.seen[-1].method, json.loads(session.seen[-1].content)) == ("PATCH", {"name": name})
    assert found.page == f"{URL}/ui/runs/{FIRST}"


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_the_table_has_a_handle_and_a_command(kind: str, name: RunKind) -> None:
    assert Session(kind).client.runs._handles[name]._calls.kind == name
    assert callable(command_of(name).callback)
    assert isinstance(runs_of(name), RunsOfKind)
