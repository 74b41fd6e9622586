"""The SDK imports without the heavy libraries."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

BLOCKED = (
    "numpy", "torch", "ray", "fastapi", "PIL", "sqlalchemy", "scipy", "sklearn", "faiss", "typer", "rich",
    "pandas", "torchvision", "datasets",
)  # fmt: skip

PROGRAM = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import faultline
assert faultline.Client("http://127.0.0.1:1")
assert faultline.Classifier(len)
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
    [("import faultline", 1.3), ("from faultline import Client", 1.7)],
)
def test_the_sdk_imports_about_as_fast_as_the_libraries_it_stands_on(program: str, most: float) -> None:
    # In turns, and the least of each: another process's load then falls on both.
    pairs = [(processor_seconds(program), processor_seconds(LIBRARIES)) for _ in range(5)]
    own, libraries = (min(column) for column in zip(*pairs, strict=True))
    assert own <= most * libraries, f"{own:.3f} s for {program!r}, {libraries:.3f} s for {LIBRARIES!r}"


THREADS = """
import sys, threading
from faultline_core.contract.runs import Item, PageOfItems
from faultline_core.contract.stress_tests import StressTestCreate
sys.setswitchinterval(1e-6)
together, failures = threading.Barrier(8), []
def use():
    together.wait()
    try:
        assert StressTestCreate(dataset="d", classifiers=["a"], seed=1).seed == 1
        assert PageOfItems[Item].model_validate_json('{"items": [], "next": null}').items == []
    except Exception as error:
        failures.append(error)
users = [threading.Thread(target=use) for _ in range(8)]
for user in users: user.start()
for user in users: user.join()
assert not failures, failures
"""


def test_threads_may_use_a_body_for_the_first_time_together() -> None:
    # Its validator is built then, and not at import.
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
