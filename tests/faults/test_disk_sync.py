"""F23 by the system: strace lets every fsync of a worker's process fail from some moment on."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from fakes.gateway import FakeGateway, fake_gateway
from fakes.mortal_worker import keep_shown
from fakes.processes import look_until

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip
ROOT = Path(__file__).parents[2]
STORAGE_ERROR = 3
LEASE_SECONDS = 2

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


@asynccontextmanager
async def with_run(folder: Path) -> AsyncIterator[tuple[FakeGateway, str]]:
    """A state folder with a run that nobody has worked on."""
    await asyncio.to_thread(folder.mkdir)
    secret = folder / "secret"
    await asyncio.to_thread(secret.write_text, "a-secret-of-some-length")
    await asyncio.to_thread(secret.chmod, 0o600)
    async with fake_gateway(folder, store=BlobStore(str(folder / "store"))) as gateway:
        await gateway.upload("demo", 1)
        await asyncio.to_thread(keep_shown, folder, gateway.world)
        run = str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])
        yield gateway, run


def worker(folder: Path, *before: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"),
        "COUNTERPOSE_LEASE_SECONDS": str(LEASE_SECONDS),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [*before, sys.executable, "-m", "fakes.worker_program", str(folder)]
    return subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE)


def failing_from(number: int) -> tuple[str, ...]:
    """Let every sync of each thread fail, from its sync of this number on."""
    inject = f"inject=fsync,fdatasync:error=EIO:when={number}+"
    return ("strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fsync,fdatasync", "-e", inject)


def work_to_the_end(folder: Path, run: str) -> dict[int, str]:
    """The state of each item after a worker that nothing disturbs."""
    ledger, process = Ledger(f"sqlite:///{folder / 'ledger.db'}"), worker(folder)
    try:
        look_until(lambda: ledger.runs.get(run).state in FINAL_RUN_STATES)
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
        assert ledger.runs.get(run).state == "completed"
        return {item.ordinal: item.state for item in ledger.items.all(run)}
    finally:
        process.kill()
        ledger.close()


@needs_strace
@pytest.mark.fault("F23")
@pytest.mark.parametrize("number", [1, 2, 5])
async def test_a_worker_whose_syncs_fail_exits_with_a_storage_error_and_the_next_ends_the_run(
    number: int, tmp_path: Path
) -> None:
    async with with_run(tmp_path / "alone") as (_, run):
        expected = await asyncio.to_thread(work_to_the_end, tmp_path / "alone", run)
    folder = tmp_path / "failing"
    async with with_run(folder) as (gateway, run):
        process = worker(folder, *failing_from(number))
        _, told = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == STORAGE_ERROR, told
        assert b"failed" in told.splitlines()[-1]
        left = {item.ordinal: item.state for item in gateway.ledger.items.all(run)}
        assert "failed" not in left.values()
        done = {ordinal for ordinal, state in left.items() if state == "done"}
        assert await asyncio.to_thread(work_to_the_end, folder, run) == expected
        assert done <= {ordinal for ordinal, state in expected.items() if state == "done"}
