"""Jobs of Ray clusters from a program and from the shell: submitted, waited for, cancelled."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from typer.main import get_command

from counterpose._cli import bug_hunt, gate, shift_benchmark, stress_test
from counterpose._cli.main import app
from counterpose._cli.submit import _name_of
from counterpose_core.contract.base import IDEMPOTENCY_HEADER, Problem
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.jobs import JobAttempt
from counterpose_core.errors import BackendUnavailable, ClusterRefused
from fakes.command import Play, run
from fakes.sdk import Session, a_job, a_summary, figure, job_answer, ok, problem, run_answer, summary_answer

SUBMIT = (
    "submit", "stress-test", "--cluster", "gpus", "--workers", "8", "--dataset", "demo", "--classifier",
    "steady",
)  # fmt: skip
LOST = Problem.of(BackendUnavailable("5 attempts in a row got nowhere"))


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_a_job_is_waited_for_and_cancelled(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_time(seconds: float) -> None:
        assert seconds > 0

    monkeypatch.setattr("asyncio.sleep", no_time)
    session = Session(kind, job_answer(), job_answer("in_progress"), job_answer("completed"))
    job = session(lambda client: client.jobs.get("j1"))
    assert not job.ended
    assert session(lambda _: job.wait()).job.state == "completed"
    session = Session(kind, job_answer(), job_answer("cancelling"))
    job = session(lambda client: client.jobs.cancel("j1"))
    assert (job.id, job.job.state) == ("j1", "cancelling")
    assert [request.method for request in session.seen] == ["GET", "POST"]
    assert session.seen[1].url.path == "/v1/jobs/j1/cancel"


def test_a_run_is_submitted_to_a_cluster_and_jobs_are_listed(kind: str) -> None:
    hunt = BugHuntCreate(labels=["bus"], classifiers=["steady"], seed=3)
    session = Session(kind, job_answer(), ok({"jobs": []}))
    session(lambda client: client.jobs.submit(hunt, cluster="gpus", workers=8, idempotency_key="mine"))
    assert session(lambda client: client.jobs.list()) == []
    sent, listed = session.seen
    request = {"labels": ["bus"], "classifiers": ["steady"], "seed": 3}
    run_of_job = {"kind": "bug-hunt", "request": request}
    assert json.loads(sent.content) == {"cluster": "gpus", "workers": 8, "run": run_of_job}
    assert (sent.method, sent.url.path, sent.headers[IDEMPOTENCY_HEADER]) == ("POST", "/v1/jobs", "mine")
    assert (listed.method, listed.url.path) == ("GET", "/v1/jobs")


def test_a_submitted_command_makes_a_job_and_follows_its_run(play: Play) -> None:
    script = play(
        job_answer(),
        run_answer(),
        run_answer("in_progress", 1),
        job_answer("in_progress"),
        run_answer("completed", 3),
        job_answer("in_progress"),
        summary_answer(a_summary(steady=figure())),
    )
    done = run(*SUBMIT, "--seed", "7", "--max-edits-per-image", "2")
    assert done.exit_code == 0, done.output
    assert "job j1 on gpus, 8 workers" in done.stderr
    submitted = script.seen[0]
    body = json.loads(submitted.content)
    assert (submitted.url.path, body["cluster"], body["workers"]) == ("/v1/jobs", "gpus", 8)
    assert submitted.headers[IDEMPOTENCY_HEADER]
    request = body["run"]["request"]
    assert body["run"]["kind"] == "stress-test"
    assert (request["dataset"], request["seed"], request["max_edits_per_image"]) == ("demo", 7, 2)
    assert script.seen[1].url.path == "/v1/runs/run-1"


def test_a_job_that_fails_ends_the_command_though_its_run_goes_on(play: Play) -> None:
    play(job_answer(), run_answer(), run_answer("in_progress", 1), job_answer("failed", problem=LOST))
    done = run(*SUBMIT)
    assert done.exit_code == 3
    assert "5 attempts in a row got nowhere" in done.stderr


def test_a_refused_cluster_is_told_and_nothing_else_is_asked(play: Play) -> None:
    script = play(problem(ClusterRefused("the cluster 'gpus' refuses the gateway's token")))
    done = run(*SUBMIT)
    assert done.exit_code == 3
    assert "cluster-refused: the cluster 'gpus' refuses" in done.stderr
    assert len(script.seen) == 1


def test_a_url_is_imported_by_the_job_s_workers_under_a_name_of_its_own(play: Play) -> None:
    url = "s3://bucket/shard-{000000..000099}.tar"
    dataset = {
        "name": _name_of(url), "classes": [], "n_sources": 0, "digest": "",
        "created_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    script = play(
        ok(dataset),
        job_answer(run=None),
        job_answer(run=None, message="no worker has started yet"),
        job_answer(),
        run_answer(),
    )
    done = run(*SUBMIT[:7], url, *SUBMIT[8:], "--detach")
    assert done.exit_code == 0, done.output
    assert "its dataset is imported first" in done.stderr
    assert "no worker has started yet" in done.stderr
    assert script.seen[0].url.path == f"/v1/datasets/{_name_of(url)}/import"
    assert json.loads(script.seen[1].content)["run"]["request"]["dataset"] == _name_of(url)
    assert _name_of(url) != _name_of("s3://bucket/shard-{000000..000098}.tar")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("stress-test", stress_test.stress_test),
        ("shift-benchmark", shift_benchmark.shift_benchmark),
        ("bug-hunt", bug_hunt.bug_hunt),
        ("gate", gate.gate),
    ],
)
def test_submit_has_every_option_of_the_method_s_own_command(name: str, own: Any) -> None:
    commands: Any = get_command(app)
    plain = {each.name for each in commands.commands[name].params}
    of_job = {each.name for each in commands.commands["submit"].commands[name].params}
    assert of_job == plain | {"cluster", "workers"}


def test_jobs_are_listed_shown_and_cancelled(play: Play) -> None:
    attempt = JobAttempt(
        number=1,
        submission_id="counterpose-j1-1",
        created_at=a_job().created_at,
        detail="the run is completed",
    )
    told = a_job("completed").model_copy(update={"attempts": [attempt]})
    play(ok({"jobs": [json.loads(told.model_dump_json())]}))
    assert "j1\tstress-test\tcompleted\tgpus\t8\t1" in run("jobs", "list").stdout
    play(ok({"jobs": [json.loads(told.model_dump_json())]}), ok(told.model_dump_json()))
    shown = run("jobs", "show").stdout
    assert "attempt 1, counterpose-j1-1: the run is completed" in shown
    play(ok({"jobs": []}))
    assert run("jobs", "cancel", "3fa8").exit_code == 2
    play(job_answer(), job_answer("cancelling"))
    assert run("jobs", "cancel", "j1").stdout == "cancelling\n"
