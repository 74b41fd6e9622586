"""Workers are forked from one process that has imported for them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpose_services.serving.fork_server import fork_server

pytestmark = pytest.mark.linux  # workers are forked there alone
IMPORTED, ABSENT = "colorsys", "no_such_module_of_ours"
NAMED_FIRST = 'echo 700 > /proc/self/oom_score_adj; exec "$@"'
WORKER = """
import gc, json, os, sys
from pathlib import Path
told = {
    "argv": sys.argv, "folder": str(Path.cwd()), "variable": os.environ.get("WORKER"), "name": __name__,
    "collects": gc.isenabled(),
    "first_to_end": int(Path("/proc/self/oom_score_adj").read_text()),
    "lost": os.environ.get("ONLY_SERVER"), "imported": "colorsys" in sys.modules, "parent": os.getppid(),
}
print(json.dumps(told), flush=True)
print("a complaint", file=sys.stderr)
if "wait" in sys.argv:
    sys.stdin.read()
sys.exit(3)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    file = tmp_path / "worker.py"
    file.write_text(WORKER, encoding="utf-8")
    return file


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setenv("ONLY_SERVER", "1")
    with fork_server(tmp_path / "workers", [ABSENT, IMPORTED], threads=1) as started:
        monkeypatch.delenv("ONLY_SERVER")
        yield shlex.split(started)


def ended(pid: int) -> bool:
    """Whether a process ends within some seconds; a zombie has."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_worker_is_a_fork_with_its_own_arguments_environment_folder_and_streams(
    command: list[str], worker: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    run = subprocess.run(
        ["sh", "-c", NAMED_FIRST, "sh", *command, str(worker), "one", "two words"],
        env=os.environ | {"WORKER": "own"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(run.stdout)
    assert told | {"parent": 0} == {
        "argv": [str(worker), "one", "two words"],
        "folder": str(folder),
        "variable": "own",
        "name": "__main__",
        "collects": True,
        "first_to_end": 700,
        "lost": None,
        "imported": True,
        "parent": 0,
    }
    assert told["parent"] != os.getpid()
    assert run.stderr.strip() == "a complaint"


def test_each_worker_has_a_process_of_its_own_and_all_have_one_parent(
    command: list[str], worker: Path
) -> None:
    started = [
        subprocess.Popen([*command, str(worker), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    told = []
    for process in started:
        assert process.stdout is not None
        told.append(json.loads(process.stdout.readline()))
    assert len({each["parent"] for each in told}) == 1
    assert all(process.poll() is None for process in started)
    for process in started:
        process.communicate(b"")


def test_a_worker_ends_with_the_program_that_stands_for_it(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "sleeper.py"
    file.write_text("import os, time; print(os.getpid(), flush=True); time.sleep(600)", encoding="utf-8")
    with subprocess.Popen([*command, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.send_signal(signal.SIGKILL)
        assert ended(pid)


def test_without_a_server_the_program_is_the_worker(command: list[str], worker: Path, tmp_path: Path) -> None:
    alone = [*command[:-1], str(tmp_path / "nobody"), str(worker), "one"]
    run = subprocess.run(alone, capture_output=True, text=True, check=False)
    told = json.loads(run.stdout)
    assert (told["argv"], told["imported"], told["parent"]) == ([str(worker), "one"], False, os.getpid())
    assert run.returncode == 3


def test_the_server_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = (
        "import sys, time; from pathlib import Path\n"
        "from counterpose_services.serving import fork_server\n"
        "kept = fork_server.subprocess.Popen\n"
        "def started(*given, **named):\n"
        "    server = kept(*given, **named)\n"
        "    print(server.pid, flush=True)\n"
        "    return server\n"
        "fork_server.subprocess.Popen = started\n"
        "with fork_server.fork_server(Path(sys.argv[1]), [], threads=1):\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", starter, str(tmp_path / "workers")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        assert Path(f"/proc/{server}/stat").read_text(encoding="utf-8").split()[2] != "Z"
        process.kill()
        assert ended(server)
