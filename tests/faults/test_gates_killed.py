"""A gate whose client, worker or gateway is killed in its middle ends with the verdict of the others."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from counterpose import Client
from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from fakes.gateway import fake_gateway
from fakes.gateway_server import serve
from fakes.ledger_audit import violated_totals
from fakes.mortal_worker import keep_shown
from fakes.processes import Start, child_processes, look_until

ROOT = Path(__file__).parents[2]
TESTED: Any = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background", "adjective"],
          "max_edits_per_image": 2, "lance_r_edits_per_image": 0, "confirm": False, "seed": 3}  # fmt: skip
PER_CLASS = 12
INCOMPLETE = 3
PATIENCE_S = 120


class Stack:
    """A gateway, a worker and the commands that use them, each a process that can be killed."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.folder, self._start, self.port = folder, start, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{folder / 'ledger.db'}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.serve()
        self.work()

    def serve(self) -> None:
        self.gateway = self._start(serve, self.database, self.folder, self.port)
        look_until(self._answers)

    def work(self) -> None:
        self.worker = self._process(sys.executable, "-m", "fakes.worker_program", str(self.folder))

    def gate(self, baseline: str) -> subprocess.Popen[bytes]:
        """The command, which judges another classifier than the baseline's."""
        program = str(Path(sys.executable).parent / "counterpose")
        told = ("--baseline", baseline, "--classifier", "leaning", "--json", "--url", self.url)
        return self._process(program, "gate", *told)

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "tests"),
            "COUNTERPOSE_LEASE_SECONDS": "2",
            "COUNTERPOSE_CONCURRENCY": "1",
            "FAKE_CLASSIFY_SECONDS": "0.2",
        }
        process = subprocess.Popen(
            arguments, env=environment, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    asyncio.run(_dataset(tmp_path))
    with child_processes() as start, ExitStack() as closing:
        opened = Stack(tmp_path, start)
        closing.callback(opened.close)
        yield opened


async def _dataset(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("a-secret-of-some-length", encoding="utf-8")
    secret.chmod(0o600)
    async with fake_gateway(folder, store=BlobStore(str(folder / "store"))) as gateway:
        await gateway.upload("demo", PER_CLASS)
        keep_shown(folder, gateway.world)


def kill_client(stack: Stack, client: subprocess.Popen[bytes]) -> None:
    client.kill()


def kill_worker(stack: Stack, client: subprocess.Popen[bytes]) -> None:
    stack.worker.kill()
    stack.worker.wait()
    stack.work()


def kill_gateway(stack: Stack, client: subprocess.Popen[bytes]) -> None:
    stack.gateway.kill()
    stack.gateway.join()
    time.sleep(1.0)
    stack.serve()


Kill = Callable[[Stack, "subprocess.Popen[bytes]"], None]


@pytest.mark.fault("F2", "F3")
def test_a_gate_whose_parts_are_killed_in_its_middle_ends_with_the_same_verdict(stack: Stack) -> None:
    with Client(stack.url) as client:
        baseline = client.stress_tests.create(**TESTED)
        baseline.wait()
        undisturbed = stack.gate(baseline.id)
        told, _ = undisturbed.communicate(timeout=PATIENCE_S)
        expected = json.loads(told)
        assert expected["outcome"] == "failed"
        assert undisturbed.returncode == 1
        for kill in (kill_client, kill_worker, kill_gateway):
            known = {run.id for run in client.runs.list()}
            command = stack.gate(baseline.id)
            run = _in_its_middle(client, known)
            kill(stack, command)
            told, _ = command.communicate(timeout=PATIENCE_S)
            if kill is kill_client:
                assert command.returncode == -9
            else:
                assert command.returncode == undisturbed.returncode, kill
                assert _verdict(json.loads(told)) == _verdict(expected), kill
            found = client.runs.get(run)
            found.wait()
            assert found.run.state == "completed"
            assert _verdict(found.summary().model_dump(mode="json")) == _verdict(expected), kill
        _no_gateway_comes_back(stack, client, baseline.id)
    ledger = Ledger(stack.database)
    assert violated_totals(ledger) == []
    ledger.close()


def _no_gateway_comes_back(stack: Stack, client: Client, baseline: str) -> None:
    """A command whose gateway is gone for good says that the gate is incomplete, and never that it passed."""
    known = {run.id for run in client.runs.list()}
    command = stack.gate(baseline)
    _in_its_middle(client, known)
    stack.gateway.kill()
    told, _ = command.communicate(timeout=2 * PATIENCE_S)
    assert command.returncode == INCOMPLETE
    assert b"passed" not in told


def _in_its_middle(client: Client, known: set[str]) -> str:
    """Wait until a new gate has recorded some of its items but not all; return its id."""

    def new() -> list[Any]:
        found = [run for run in client.runs.list() if run.id not in known and run.run.kind == "gate"]
        return [run for run in found if 0 < run.run.request_counts.done < run.run.request_counts.total]

    look_until(lambda: bool(new()))
    return str(new()[0].id)


def _verdict(summary: dict[str, Any]) -> Any:
    return {name: summary[name] for name in ("outcome", "counts", "cells") if name in summary}
