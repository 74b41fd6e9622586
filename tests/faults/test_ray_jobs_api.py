"""Ray's jobs API on a real head: what the gateway relies on, and that the tests' fake answers alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from counterpose_core.errors import ClusterRefused
from counterpose_gateway.jobs.ray_cluster import RayCluster, RayJob, Submission
from fakes.ray_cluster import ray_cluster
from fakes.ray_jobs_api import TOKEN, FakeRayJobs

PATIENCE_SECONDS = 60.0
ENDLESS = Submission(submission_id="endless", entrypoint="sleep 600", metadata={"a": "b"}, cpus=0.1)
WRONG = Submission(submission_id="wrong", entrypoint="exit 3", metadata={}, cpus=0.1)

Asked = Callable[[str], RayCluster]
"""A cluster as the gateway asks it: with its ``own`` token, another, ``none``, or for another ``version``."""


@asynccontextmanager
async def asking(
    url: str, own: Path, folder: Path, transport: httpx.AsyncBaseTransport
) -> AsyncIterator[Asked]:
    """Open the gateway's client."""
    other = folder / "other"
    other.touch(mode=0o600)
    other.write_text("x" * 64, encoding="utf-8")
    files = {"own": own, "other": other, "none": None, "version": own}
    async with httpx.AsyncClient(transport=transport) as http:

        def asked(which: str) -> RayCluster:
            versions = ("2.59",) if which == "version" else ("2.60",)
            return RayCluster("local", url, http=http, token_file=files[which], versions=versions)

        yield asked


async def test_a_real_head_answers_as_the_gateway_expects(tmp_path: Path) -> None:
    with ray_cluster(workers=0, head_cpus=2) as cluster:
        transport = httpx.AsyncHTTPTransport()
        async with asking(cluster.dashboard, cluster.token_file, tmp_path, transport) as asked:
            await _hold_to_the_contract(asked)
        cluster.kill_head()
        cluster.start_head()
        async with asking(
            cluster.dashboard, cluster.token_file, tmp_path, httpx.AsyncHTTPTransport()
        ) as asked:
            # A head that was started anew knows no job, and takes the same id again.
            assert await asked("own").job("endless") is None


async def test_the_fake_of_the_tests_answers_as_a_real_head(tmp_path: Path) -> None:
    own, fake = tmp_path / "own", FakeRayJobs()
    own.touch(mode=0o600)
    own.write_text(TOKEN, encoding="utf-8")

    def handle(request: httpx.Request) -> httpx.Response:
        answer = fake.handle(request)
        # The fake runs nothing: what ends by itself is ended here.
        if "wrong" in fake.jobs:
            fake.end("wrong")
        return answer

    async with asking("http://head:8265", own, tmp_path, httpx.MockTransport(handle)) as asked:
        await _hold_to_the_contract(asked)
        fake.restart()
        assert await asked("own").job("endless") is None


async def _hold_to_the_contract(asked: Asked) -> None:
    ray = asked("own")
    await ray.check()
    for which, why in (("none", "token (401)"), ("other", "token (403)"), ("version", "runs Ray 2.60")):
        with pytest.raises(ClusterRefused) as refused:
            await asked(which).check()
        assert why in refused.value.detail
    with pytest.raises(ClusterRefused):
        await asked("other").submit(ENDLESS)
    assert await ray.job("endless") is None
    # Two at once: Ray takes the id once, and the second is recognised.
    await asyncio.gather(ray.submit(ENDLESS), ray.submit(ENDLESS))
    await ray.submit(ENDLESS)
    await ray.submit(WRONG)
    assert (await _until(ray, "wrong", lambda job: job.ended)).status == "FAILED"
    assert not (await _until(ray, "endless", lambda job: job.status == "RUNNING")).ended
    await ray.stop("endless")
    assert (await _until(ray, "endless", lambda job: job.ended)).status == "STOPPED"
    await ray.stop("unknown")


async def _until(ray: RayCluster, submission_id: str, holds: Callable[[RayJob], bool]) -> RayJob:
    ends = time.monotonic() + PATIENCE_SECONDS
    job = await ray.job(submission_id)
    while job is None or not holds(job):
        assert time.monotonic() < ends, job
        await asyncio.sleep(0.2)
        job = await ray.job(submission_id)
    return job
