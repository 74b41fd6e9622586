"""The SDK imports without the heavy libraries."""

from __future__ import annotations

import subprocess
import sys

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
