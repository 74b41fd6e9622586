"""What `serve` and `work` load before they are ready: no library that only an answer or an item needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset(
    {
        "datasets", "diffusers", "faiss", "matplotlib", "onnxruntime", "open_clip", "pandas", "pyarrow",
        "ray", "scipy.special", "scipy.stats", "sklearn", "timm", "torch", "torchvision", "transformers",
    }
)  # fmt: skip
"""A few tenths of a second and ten to a hundred megabytes each."""

IDLE_BYTES = 250_000_000

PROGRAM = """
import json, sys
import uvicorn
from counterpose_gateway import main
from counterpose_gateway.worker import worker

async def stop_at_once(*_):
    pass

uvicorn.Server.serve = worker.Worker.work = stop_at_once
assert main.main([sys.argv[1]]) == 0
resident = open("/proc/self/statm").read().split()[1]
print(json.dumps({"modules": sorted(sys.modules), "pages": int(resident)}))
"""


@pytest.mark.parametrize("verb", ["serve", "work"])
def test_the_gateway_starts_without_heavy_libraries_and_in_little_memory(verb: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-some-length", encoding="utf-8")
    secret.chmod(0o600)
    started = subprocess.run(
        [sys.executable, "-c", PROGRAM, verb],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "COUNTERPOSE_STATE_DIR": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(started.stdout)
    assert sorted(HEAVY & set(told["modules"])) == []
    assert told["pages"] * os.sysconf("SC_PAGE_SIZE") <= IDLE_BYTES
