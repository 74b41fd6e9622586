"""The tutorials' programs and notebooks run as they stand, each in an empty folder, on one stack."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from counterpose._stack import Stack

FOLDER = Path(__file__).parent / "tutorials"
PROGRAM = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
TUTORIALS = sorted(path for path in FOLDER.glob("*.md") if PROGRAM.search(path.read_text(encoding="utf-8")))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


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
    environment = os.environ | {"COUNTERPOSE_URL": stack.url}
    shown = subprocess.run(
        [sys.executable, "tutorial.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr


@pytest.mark.timeout(900)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_it_stands_and_shows_what_it_found(
    notebook: Path, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_URL", stack.url)
    content = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    # An error in a cell is raised, with the cell and its traceback.
    NotebookClient(content, timeout=600, resources=resources).execute()
    outputs = [output.get("data", {}) for cell in content.cells for output in cell.get("outputs", [])]
    pages = [data["text/html"] for data in outputs if "text/html" in data]
    assert any("data:image/" in page for page in pages), "no first screen with an image"
    assert any(">breaks</td>" in page for page in pages), "no finding that breaks the model"
    # A bar is redrawn in its place; lines of a terminal would fill the cell.
    assert any("<progress " in page for page in pages)
    assert not [
        output
        for cell in content.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stderr"
    ]
