"""The workers of a job: they import its dataset first, take its run alone, and end when not needed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from counterpose_gateway.worker import job_work
from counterpose_gateway.worker.job_work import JobPart, run_of, until_not_needed
from fakes.jobs import LONG, REQUEST, Jobs, jobs_of
from fakes.processes import poll_until
from fakes.shards import write_shards


async def import_begun(jobs: Jobs, folder: Path, name: str) -> None:
    """Ask for the import of two shards into a dataset."""
    url = write_shards(f"memory://{folder.name}-{name}", 2, 2, ["boat", "sled"])
    answer = await jobs.gateway.http.post(f"/v1/datasets/{name}/import", json={"url": url})
    assert answer.status_code == 202, answer.text


async def test_a_job_s_workers_import_its_dataset_alone_and_its_run_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_work, "NEWS_SECONDS", 0.01)
    async with jobs_of(tmp_path) as jobs:
        await import_begun(jobs, tmp_path, "other")
        await import_begun(jobs, tmp_path, "late")
        request = {**REQUEST, "dataset": "late"}
        made = await jobs.post(run={"kind": "stress-test", "request": request})
        assert (made.status_code, made.json()["run"]) == (202, None)
        await jobs.look()
        await jobs.look(passing=5.0)
        job = jobs.ledger.jobs.get(made.json()["id"])
        # The cluster starts workers before there is a run: they import.
        assert (job.run, len(jobs.ray.submitted)) == (None, 1)
        stop, part = asyncio.Event(), JobPart(job.id, 1)
        working = asyncio.create_task(run_of(jobs.ledger.jobs, part, stop, jobs.gateway.importer))
        await poll_until(lambda: jobs.ledger.imports.has_ended("late"))
        await jobs.look(passing=5.0)
        async with asyncio.timeout(100):
            news = await working
        assert news is not None
        assert (news.run_id, news.workers) == (jobs.ledger.jobs.get(job.id).run, 2)
        assert jobs.ledger.runs.get(str(news.run_id)).dataset == "late"
        assert jobs.ledger.datasets.get("late").n_sources == 4
        assert not jobs.ledger.imports.has_ended("other")


async def test_a_job_whose_import_fails_fails_with_its_reason_and_is_stopped(tmp_path: Path) -> None:
    async with jobs_of(tmp_path) as jobs:
        await jobs.gateway.http.post("/v1/datasets/late/import", json={"url": "memory://nothing/a.tar"})
        made = await jobs.post(run={"kind": "stress-test", "request": {**REQUEST, "dataset": "late"}})
        await jobs.look()
        importer = jobs.gateway.importer()
        for _ in range(5):
            while (leased := await importer.lease()) is not None:
                await importer.work(leased)
            jobs.clock.now += 60.0
        await jobs.look(passing=LONG)
        job = jobs.ledger.jobs.get(made.json()["id"])
        assert (job.state, job.run) == ("failed", None)
        assert job.problem is not None
        assert job.problem.code == "dataset-empty"
        assert jobs.ray.stopped == [job.attempts[0].submission_id]


async def test_a_worker_of_a_job_takes_its_run_alone_and_ends_when_it_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_work, "NEWS_SECONDS", 0.01)
    async with jobs_of(tmp_path) as jobs:
        other = (await jobs.gateway.http.post("/v1/stress-tests", json=REQUEST)).json()["id"]
        job = await jobs.submit()
        assert job.run is not None
        part = JobPart(job.id, 1)
        stop = asyncio.Event()
        news = await run_of(jobs.ledger.jobs, part, stop, jobs.gateway.importer)
        assert news is not None
        assert news.run_id == job.run
        await jobs.gateway.worker(run_id=job.run).work_off()
        assert jobs.ledger.runs.get(job.run).state == "completed"
        assert jobs.ledger.runs.get(other).state == "queued"
        async with asyncio.timeout(100):
            await until_not_needed(jobs.ledger.jobs, part)
        # Another attempt's process, and one of a job that is gone, have nothing to do.
        assert await run_of(jobs.ledger.jobs, JobPart("gone", 1), stop, jobs.gateway.importer) is None
