"""``make wheels-test``: the two wheels in an empty environment, away from the clone, as a new user has them.

python tests/wheels/trial.py DIST REQUIREMENTS_LOCK
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NOT_READY, USAGE = 3, 2


@dataclass(frozen=True)
class Trial:
    """An empty environment, an empty folder and an empty home, with nothing of the clone on any path."""

    folder: Path

    @property
    def programs(self) -> Path:
        """The environment's programs."""
        return self.folder / "venv" / "bin"

    def install(self, lock: Path, *requirements: str) -> None:
        """Make the environment, unless there is one, and install what is required, such as ``x.whl[all]``."""
        if not self.programs.exists():
            self._timed(sys.executable, "-m", "venv", str(self.folder / "venv"))
        # Without hashes: a wheel of ours has none.
        pins = self.folder / "pins.txt"
        pins.write_text(
            "\n".join(re.findall(r"^\S+==\S+", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))
        )
        pip = [str(self.programs / "python"), "-m", "pip", "install", "--quiet"]
        self._timed(*pip, "--constraint", str(pins), *requirements)

    def counterpose(self, *arguments: str, code: int = 0) -> str:
        """Run ``counterpose``; return its standard output.

        Raises:
            SystemExit: it ended with another code.
        """
        done = self._timed(str(self.programs / "counterpose"), *arguments, codes=(code,))
        return done.stdout + done.stderr

    def _timed(self, *command: str, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        began = time.monotonic()
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        # Only pip's settings are passed on: a variable or a path of the clone would hide what is missing.
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQ"))}
        environment = kept | {
            "HOME": str(home),
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            command, cwd=empty, env=environment, capture_output=True, text=True, check=False
        )
        shown = " ".join([Path(command[0]).name, *command[1:]])
        ended = f"({time.monotonic() - began:.0f} s, exit {done.returncode})"
        say(f"$ {shown}\n{done.stdout}{done.stderr}{ended}\n")
        if done.returncode not in codes:
            raise SystemExit(f"{shown} ended with {done.returncode}")
        return done


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def command_alone(folder: Path, wheel: Path, suite: Path, lock: Path) -> None:
    """Without any extra, the command says what to install; with its own, `--help` works and `up` says it."""
    trial = Trial(folder)
    trial.install(lock, str(wheel))
    missing = trial.counterpose("--help", code=USAGE)
    require(f"counterpose[cli] @ {wheel.as_uri()}" in missing, "the command does not say what to install")
    require("Traceback" not in missing, "the command ends with a traceback")
    trial.install(lock, f"{wheel}[cli]")
    require("demo" in trial.counterpose("--help"), "help names no demo")
    install = f"counterpose[all] @ {wheel.as_uri()}"
    require(install in trial.counterpose("up", code=USAGE), "up does not say what to install")


def whole_product(folder: Path, wheel: Path, suite: Path, lock: Path) -> None:
    """With all extras and the suite, a demo runs, and a Counterpose is started, shown and stopped."""
    trial = Trial(folder)
    began = time.monotonic()
    trial.install(lock, f"{wheel}[all]", str(suite))
    trial.counterpose("demo")
    say(f"first command to first report: {(time.monotonic() - began) / 60:.1f} min\n")
    require((folder / "empty/counterpose-demo/report.html").stat().st_size > 100_000, "no report")
    trial.counterpose("status", code=NOT_READY)
    try:
        # Another Counterpose of this machine may have the default ports.
        ports = [f"{option}={free_port()}" for option in ("--port", "--services-port")]
        trial.counterpose("up", *ports)
        require(json.loads(trial.counterpose("status", "--json"))["ready"], "not ready after up")
        require("counterpose-miniature-suite" in trial.counterpose("status"), "status names no suite")
    finally:
        trial.counterpose("down")
    trial.counterpose("status", code=NOT_READY)


def free_port() -> int:
    """A loopback port that no program listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require(held: bool, complaint: str) -> None:
    """End the trial if a condition does not hold."""
    if not held:
        raise SystemExit(complaint)


def main() -> None:
    """Parse arguments and run both trials in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder with both wheels")
    parser.add_argument("lock", type=Path, help="pip's constraints")
    given = parser.parse_args()
    dist, lock = given.dist.absolute(), given.lock.absolute()
    (wheel,), (suite,) = dist.glob("counterpose-*.whl"), dist.glob("counterpose_miniature_suite-*.whl")
    with tempfile.TemporaryDirectory(prefix="counterpose-wheels-") as folder:
        for name, trial in (("cli", command_alone), ("all", whole_product)):
            (Path(folder) / name).mkdir()
            trial(Path(folder) / name, wheel, suite, lock)


if __name__ == "__main__":
    main()
