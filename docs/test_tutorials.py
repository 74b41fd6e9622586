"""The tutorials' programs run as they stand, each in an empty folder, on one stack on the miniature suite."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline._stack import Stack

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.md"))
PROGRAM = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("stack"), port=free_port(), services_port=free_port())
    try:
        running.up()
        yield running
    finally:
        running.down()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_as_it_stands(tutorial: Path, stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "tutorial.py").write_text("\n".join(PROGRAM.findall(tutorial.read_text(encoding="utf-8"))))
    environment = os.environ | {"FAULTLINE_URL": stack.url}
    shown = subprocess.run(
        [sys.executable, "tutorial.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
