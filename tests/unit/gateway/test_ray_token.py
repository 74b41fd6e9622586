"""A head that was started anew with another token: the error says what to do, and no restart is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from counterpose_core.errors import ClusterRefused
from counterpose_gateway.jobs.ray_cluster import RayCluster
from fakes.ray_jobs_api import TOKEN, URL, FakeRayJobs

NEW = "n" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "token"
    made.touch(mode=0o600)
    write(made, TOKEN)
    return made


def write(file: Path, token: str) -> None:
    file.write_text(token, encoding="utf-8")


@pytest.fixture
async def cluster(head: FakeRayJobs, file: Path) -> AsyncIterator[RayCluster]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(head.handle)) as http:
        yield RayCluster("gpus", URL, http=http, token_file=file, versions=("2.60",))


@pytest.fixture
def head() -> FakeRayJobs:
    return FakeRayJobs()


@pytest.mark.fault("F31")
async def test_the_error_names_the_file_and_the_new_token_is_read_from_it(
    cluster: RayCluster, head: FakeRayJobs, file: Path
) -> None:
    await cluster.check()
    head.token = NEW
    head.restart()
    with pytest.raises(ClusterRefused, match=r"'gpus' refuses.*\(403\).*COUNTERPOSE_CLUSTER_TOKEN_FILES"):
        await cluster.check()
    write(file, NEW)
    await cluster.check()


@pytest.mark.fault("F31")
async def test_neither_token_is_in_the_error(cluster: RayCluster, head: FakeRayJobs) -> None:
    head.token = NEW
    with pytest.raises(ClusterRefused) as refused:
        await cluster.check()
    assert TOKEN not in refused.value.detail
    assert NEW not in refused.value.detail
