"""Jobs on Ray clusters: made whole or not at all, submitted once an attempt, tried again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.jobs import MOST_WORKERS, Job
from counterpose_core.errors import LeaseLost
from counterpose_gateway.jobs.look import END_SECONDS, LOST_SECONDS, MOST_FRUITLESS, QUIET_SECONDS
from fakes.jobs import LONG, REQUEST, Jobs, jobs_of
from fakes.ray_jobs_api import NAME, FakeRayJobs

FUNCTION = f"http://127.0.0.1:9/{'a' * 32}/v2/models/steady/versions/1"


async def test_a_job_is_durable_with_its_run_and_submitted_once_with_stated_resources(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        answer = await jobs.post()
        assert answer.status_code == 202
        job = Job.model_validate(answer.json())
        assert answer.headers["location"] == f"/v1/jobs/{job.id}"
        assert job.run is not None
        assert jobs.ledger.runs.get(job.run).state == "queued"
        await jobs.look()
        await jobs.look(passing=5.0)
        (sent,) = jobs.ray.submitted
        assert sent == {
            "submission_id": f"counterpose-{job.id}-1",
            "entrypoint": f"python -m counterpose_services.jobs.work --job {job.id} --attempt 1 --workers 2 "
            "--cpus 1",
            "metadata": {"counterpose_job": job.id, "counterpose_run": job.run},
            "entrypoint_num_cpus": 0.1,
        }
        (attempt,) = jobs.ledger.jobs.get(job.id).attempts
        assert (attempt.submission_id, attempt.ended_at) == (sent["submission_id"], None)


async def test_a_key_makes_one_job_however_often_it_is_sent(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        answers = await asyncio.gather(*(jobs.post(key="k") for _ in range(10)))
        made = {answer.json()["id"] for answer in answers if answer.status_code == 202}
        others = {answer.json()["code"] for answer in answers if answer.status_code != 202}
        assert len(made) == 1
        assert others <= {"idempotency-in-flight"}
        assert (await jobs.post(key="k")).json()["id"] in made
        assert (await jobs.post(key="k", workers=3)).json()["code"] == "idempotency-conflict"
        assert len(jobs.ledger.jobs.page().jobs) == len(jobs.ledger.runs.page().runs) == 1


REFUSED: Mapping[str, tuple[dict[str, Any], str, str | None]] = {
    "unknown cluster": ({"cluster": "another"}, "invalid-request", "/cluster"),
    "no worker": ({"workers": 0}, "invalid-request", "/workers"),
    "too many workers": ({"workers": MOST_WORKERS + 1}, "invalid-request", "/workers"),
    "unknown dataset": (
        {"run": {"kind": "stress-test", "request": {**REQUEST, "dataset": "no"}}},
        "unknown-dataset",
        "/run/request/dataset",
    ),
    "field of the run": (
        {"run": {"kind": "stress-test", "request": {**REQUEST, "limit": 0}}},
        "invalid-request",
        "/run/request/limit",
    ),
    "function": (
        {
            "run": {
                "kind": "stress-test",
                "request": {**REQUEST, "functions": {"steady": FUNCTION}},
            }
        },
        "invalid-request",
        "/run/request/functions",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_job_that_cannot_be_made_is_refused_and_nothing_is_left(case: str, tmp_path: Path) -> None:
    changes, code, pointer = REFUSED[case]
    async with jobs_of(tmp_path) as jobs:
        problem = (await jobs.post(**changes)).json()
        assert (problem["code"], problem["errors"][0]["pointer"]) == (code, pointer), problem
        await _require_nothing(jobs)


async def test_a_cluster_out_of_reach_refuses_the_job_and_nothing_is_left(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        jobs.ray.down = True
        problem = (await jobs.post()).json()
        assert problem["code"] == "backend-unavailable"
        assert "'cluster' does not answer" in problem["detail"]
        assert "head:8265" not in problem["detail"]
        jobs.ray.down = False
        jobs.ray.token = "another"
        problem = (await jobs.post()).json()
        assert (problem["code"], problem["status"]) == ("cluster-refused", 502)
        assert "refuses the gateway's token (403)" in problem["detail"]
        jobs.ray.token, jobs.ray.version = FakeRayJobs().token, "2.61.3"
        problem = (await jobs.post()).json()
        assert (problem["code"], problem["retryable"]) == ("cluster-refused", False)
        assert "runs Ray 2.61.3" in problem["detail"]
        await _require_nothing(jobs)


async def _require_nothing(jobs: Jobs) -> None:
    await jobs.look()
    assert jobs.ledger.jobs.page().jobs == []
    assert jobs.ledger.runs.page().runs == []
    assert jobs.ray.submitted == []


async def test_a_job_left_without_its_run_by_a_killed_gateway_gets_it_once(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        leased = jobs.ledger.jobs.create(
            cluster=NAME, workers=1, kind="stress-test", request=REQUEST, fingerprint="f"
        )
        await jobs.look()
        assert jobs.ledger.jobs.get(leased.id).run is None
        await jobs.look(passing=LONG)
        await jobs.look(passing=LONG)
        (run,) = jobs.ledger.runs.page().runs
        assert jobs.ledger.jobs.get(leased.id).run == run.id
        assert len(jobs.ray.submitted) == 1


async def test_an_attempt_claimed_by_a_killed_launcher_is_submitted_once(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        await jobs.post()
        leased = jobs.lease()
        assert leased is not None
        jobs.ledger.jobs.claim_attempt(leased)
        # The launcher is gone: its lease runs out, and the next one finds the claim.
        await jobs.look(passing=LONG)
        assert [sent["submission_id"][-2:] for sent in jobs.ray.submitted] == ["-1"]


async def test_a_submission_whose_answer_was_lost_is_recognised(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        jobs.ray.lost_answers = 1
        job = await jobs.submit()
        assert job.attempts[0].submitted_at is None
        assert "does not answer (ReadTimeout)" in job.message
        await jobs.look(passing=LONG)
        job = jobs.ledger.jobs.get(job.id)
        assert len(jobs.ray.submitted) == len(job.attempts) == 1
        assert job.attempts[0].submitted_at is not None


async def test_a_launcher_that_lost_its_lease_writes_nothing(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        await jobs.post()
        slow = jobs.lease()
        assert slow is not None
        assert jobs.lease() is None
        jobs.clock.now += LONG
        quick = jobs.lease()
        assert quick is not None
        jobs.ledger.jobs.claim_attempt(quick)
        with pytest.raises(LeaseLost):
            jobs.ledger.jobs.claim_attempt(slow)
        with pytest.raises(LeaseLost):
            jobs.ledger.jobs.end(replace(slow, fence=slow.fence - 1), "completed")
        assert len(jobs.ledger.jobs.get(slow.id).attempts) == 1


@pytest.mark.parametrize("how", ["forgotten", "failed", "hanging"])
async def test_a_lost_attempt_is_followed_by_another_of_the_same_run(how: str, tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        jobs.report(job)
        await jobs.look(passing=5.0)
        assert jobs.ledger.jobs.get(job.id).state == "in_progress"
        first = job.attempts[0].submission_id
        if how == "forgotten":
            jobs.ray.restart()
        elif how == "failed":
            jobs.ray.end(first)
        await jobs.look(passing=(LOST_SECONDS if how == "hanging" else QUIET_SECONDS) + 1.0)
        told = jobs.ledger.jobs.get(job.id)
        why = {"forgotten": "does not know it", "failed": "as FAILED", "hanging": "has reported for"}[how]
        assert why in str(told.attempts[0].detail)
        assert jobs.ray.stopped == ([first] if how == "hanging" else [])
        # The pause is told, and the workers of the lost attempt are not needed any more.
        assert "attempt 1 was lost" in told.message
        assert not jobs.ledger.jobs.news(job.id, 1).needed
        await jobs.look(passing=LONG)
        told = jobs.ledger.jobs.get(job.id)
        assert [attempt.number for attempt in told.attempts] == [1, 2]
        assert (told.run, told.attempts[1].ended_at) == (job.run, None)
        assert jobs.ledger.jobs.news(job.id, 2).run_id == job.run


async def test_a_quiet_attempt_that_ray_has_not_started_is_waited_for(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        waiting = {"status": "PENDING", "message": "Job has not started yet."}
        jobs.ray.jobs[job.attempts[0].submission_id] |= waiting
        await jobs.look(passing=10 * LOST_SECONDS)
        told = jobs.ledger.jobs.get(job.id)
        assert (told.state, len(told.attempts), told.attempts[0].ended_at) == ("queued", 1, None)
        assert "has not started it" in told.message


async def test_while_the_cluster_is_away_no_attempt_is_lost(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        jobs.ray.down = True
        for _ in range(10):
            await jobs.look(passing=LOST_SECONDS + 1.0)
        told = jobs.ledger.jobs.get(job.id)
        assert (told.state, len(told.attempts), told.attempts[0].ended_at) == ("queued", 1, None)
        assert "does not answer" in told.message


async def test_a_job_is_given_up_after_attempts_without_progress_and_not_before(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        assert job.run is not None
        for number in range(1, 4):
            jobs.ray.end(f"counterpose-{job.id}-{number}")
            await jobs.look(passing=QUIET_SECONDS + 1.0)
            await jobs.look(passing=LONG)
        # What an attempt gets done starts the count again.
        group = jobs.ledger.items.lease("worker", seconds=LONG, run_id=job.run)
        assert group is not None
        await jobs.gateway.worker()._process(group)
        for number in range(4, 4 + MOST_FRUITLESS):
            assert jobs.ledger.jobs.get(job.id).state == "queued", number
            jobs.ray.end(f"counterpose-{job.id}-{number}")
            await jobs.look(passing=QUIET_SECONDS + 1.0)
            await jobs.look(passing=LONG)
        # The fourth attempt had progress, so it is not counted.
        jobs.ray.end(f"counterpose-{job.id}-{4 + MOST_FRUITLESS}")
        await jobs.look(passing=QUIET_SECONDS + 1.0)
        told = jobs.ledger.jobs.get(job.id)
        assert (told.state, len(told.attempts)) == ("failed", 4 + MOST_FRUITLESS)
        assert told.problem is not None
        assert "5 attempts in a row got nowhere" in told.problem.detail
        assert jobs.ledger.runs.get(job.run).state == "in_progress"


async def test_an_ended_run_ends_the_job_and_what_still_runs_of_it(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        jobs.report(job)
        await jobs.work_off()
        assert not jobs.ledger.jobs.news(job.id, 1).needed
        await jobs.look(passing=5.0)
        # Its processes end by themselves; those that do not are stopped.
        assert jobs.ledger.jobs.get(job.id).message == "its workers have not ended yet"
        await jobs.look(passing=END_SECONDS + 1.0)
        assert jobs.ray.stopped == [job.attempts[0].submission_id]
        ended = jobs.ledger.jobs.get(job.id)
        assert (ended.state, ended.attempts[0].detail) == ("completed", "the run is completed")
        await jobs.look(passing=LONG)
        assert len(jobs.ray.submitted) == 1


async def test_a_cancelled_job_cancels_its_run_and_stops_its_workers(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        job = await jobs.submit()
        jobs.clock.now += 5.0
        held = jobs.lease()
        assert held is not None
        answer = await jobs.gateway.http.post(f"/v1/jobs/{job.id}/cancel")
        assert answer.json()["state"] == "cancelling"
        with pytest.raises(LeaseLost):
            jobs.ledger.jobs.put_off(held, 0.0)
        await jobs.look(passing=END_SECONDS + 1.0)
        assert jobs.ledger.jobs.get(job.id).state == "cancelled"
        assert job.run is not None
        assert jobs.ledger.runs.get(job.run).state == "cancelled"
        assert jobs.ray.stopped == [job.attempts[0].submission_id]
        again = await jobs.gateway.http.post(f"/v1/jobs/{job.id}/cancel")
        assert again.json()["code"] == "run-not-cancellable"
        assert (await jobs.gateway.http.get("/v1/jobs/unknown")).json()["code"] == "not-found"


async def test_jobs_are_listed_newest_first_a_page_at_a_time(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        made = []
        for _ in range(3):
            jobs.clock.now += 1.0
            made.append((await jobs.post()).json()["id"])
        first = (await jobs.gateway.http.get("/v1/jobs", params={"limit": 2})).json()
        rest = (await jobs.gateway.http.get("/v1/jobs", params={"after": first["after"]})).json()
        assert [job["id"] for job in first["jobs"] + rest["jobs"]] == made[::-1]
        assert rest["after"] is None
