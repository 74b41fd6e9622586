"""A client that openapi-python-client generates from the document works with a live gateway."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from contract.live import live_gateway

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("openapi_python_client.yaml")
PROGRAM = Path(sys.executable).with_name("openapi-python-client")

USE = """
import sys
from generated_counterpose import Client
from generated_counterpose.api.artifacts import get_image
from generated_counterpose.api.datasets import create_dataset
from generated_counterpose.api.runs import (
    get_run, list_items, stream_results, summarize_run, wait_for_run,
)
from generated_counterpose.api.stress_tests import create_stress_test
from generated_counterpose.models import DatasetCreate, Problem, Run, StressTestCreate
from generated_counterpose.models import EditType, RunState

client = Client(sys.argv[1])
body = StressTestCreate(
    dataset="demo", classifiers=["steady", "leaning"], edit_types=[EditType.BACKGROUND], seed=7
)
made = create_stress_test.sync(client=client, body=body, idempotency_key="once")
assert isinstance(made, Run), made
assert create_stress_test.sync(client=client, body=body, idempotency_key="once").id == made.id
ended = wait_for_run.sync(made.id, client=client, timeout=25.0)
assert ended.state == "completed", ended
got = get_run.sync(made.id, client=client)
assert (got.id, got.request_counts.total) == (made.id, ended.request_counts.total)
page = list_items.sync(made.id, client=client, limit=5)
assert len(page.items) == 5
results = stream_results.sync(made.id, client=client)
assert len(results.splitlines()) == ended.request_counts.total + 1
summary = summarize_run.sync(made.id, client=client)
assert set(summary.models.to_dict()) == {"steady", "leaning"}
image = get_image.sync(sys.argv[2], client=client)
assert image.payload.read().startswith(b"\\x89PNG")
missing = get_run.sync("nowhere", client=client)
assert isinstance(missing, Problem) and (missing.status, missing.code) == (404, "not-found")
taken = create_dataset.sync(client=client, body=DatasetCreate(name="a/b"))
assert isinstance(taken, Problem) and taken.errors[0].pointer == "/name"
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a client that was generated without a warning."""
    folder = tmp_path_factory.mktemp("client")
    command = [
        str(PROGRAM), "generate", "--path", str(ROOT / "gateway" / "openapi.json"), "--meta", "none",
        "--output-path", str(folder / "generated_counterpose"), "--config", str(CONFIG), "--fail-on-warning",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arning" not in done.stdout + done.stderr
    return folder


@pytest.mark.fault("T3")
async def test_a_generated_client_creates_waits_and_reads_a_run(generated: Path, tmp_path: Path) -> None:
    async with live_gateway(tmp_path) as live:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", USE, live.address, live.known.image,
            env={"PYTHONPATH": str(generated)}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, told = await process.communicate()
    assert process.returncode == 0, told.decode()
