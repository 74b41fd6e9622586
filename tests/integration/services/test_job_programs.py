"""The programs of a Ray job on a node: kept running, ended with whoever keeps them, found by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterpose_processes import supervised
from counterpose_processes.supervised import Supervised
from counterpose_services.jobs.worker import gateway_program
from fakes.process_trees import descendants, kill, title
from fakes.processes import look_until

COUNTING = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
runs = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (runs + 1))
sys.exit(0 if runs == 2 else 5)
"""
KEEPING = """
import sys
from counterpose_processes.supervised import Supervised
Supervised("it", [sys.executable, "-c", "import time; time.sleep(600)"]).keep()
"""


def test_a_program_is_started_again_with_growing_pauses_until_it_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervised, "PAUSES_S", (0.0, 0.01, 0.02, 0.03))
    Supervised("it", [sys.executable, "-c", COUNTING, str(tmp_path / "runs")]).keep()
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "xxx"
    ends = [record.message.rpartition("; ")[2] for record in caplog.records]
    assert ends == ["it is started again in 0.01 s", "it is started again in 0.02 s"]


def test_a_program_does_not_outlive_a_keeper_that_is_killed() -> None:
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPING], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    look_until(lambda: any("time.sleep(600)" in title(pid) for pid in descendants(keeper.pid)[1:]))
    kept = descendants(keeper.pid)
    assert len(kept) == 2, "the guard and the program"
    kill(keeper.pid)
    keeper.wait()
    look_until(lambda: not any(map(title, kept)))


def test_the_gateway_s_program_is_found_beside_python_and_missed_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Path(gateway_program()).name == "counterpose-gateway"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"need the gateway's packages"):
        gateway_program()
