"""The SDK imports without the heavy libraries."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

BLOCKED = (
    "numpy", "torch", "ray", "fastapi", "PIL", "sqlalchemy", "scipy", "sklearn", "faiss", "typer", "rich",
    "pandas", "torchvision", "datasets", "opentelemetry",
)  # fmt: skip

PROGRAM = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import counterpose
assert counterpose.Client("http://127.0.0.1:1")
assert counterpose.Classifier(len)
assert not set(sys.modules) & set({BLOCKED!r})
"""


def test_the_sdk_imports_without_numpy_torch_or_ray() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def processor_seconds(program: str) -> float:
    """The processor time of a Python process that runs ``program``, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


LIBRARIES = "import httpx; from pydantic import BaseModel"


@pytest.mark.parametrize(
    ("program", "most"),
    [("import counterpose", 1.3), ("from counterpose import Client", 1.7)],
)
def test_the_sdk_imports_about_as_fast_as_the_libraries_it_stands_on(program: str, most: float) -> None:
    # In turns, and the least of each: another process's load then falls on both.
    pairs = [(processor_seconds(program), processor_seconds(LIBRARIES)) for _ in range(5)]
    own, libraries = (min(column) for column in zip(*pairs, strict=True))
    assert own <= most * libraries, f"{own:.3f} s for {program!r}, {libraries:.3f} s for {LIBRARIES!r}"
