"""An earlier tree of the product, unpacked beside the build, that runs with this environment's libraries."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from evaluation.paths import ROOT

BASELINE = "7f2e204"
"""The commit whose demo is the measure: 384 items, four classifiers."""
PROGRAMS = {
    "faultline-gateway": "faultline_gateway.main",
    "faultline-services": "faultline_services.launcher",
}
DISTRIBUTION = ("faultline", "0.1.0")
"""Its name and version, which its gateway looks up."""


@dataclass(frozen=True)
class Tree:
    """A tree of the product; ``demo`` is the folder of an earlier tree's demo."""

    folder: Path
    demo: Path | None = None

    @property
    def path(self) -> str:
        """The PYTHONPATH under which its packages come before those that are installed."""
        return ":".join(str(self.folder / part) for part in ("clients", "gateway", "services"))


def unpacked(commit: str, folder: Path) -> Tree:
    """Unpack a commit of this repository into a folder, unless it is there.

    Raises:
        SystemExit: the repository does not have the commit, as in a shallow clone.
    """
    tree = folder / commit
    if not tree.exists():
        packed = subprocess.run(
            ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False
        )
        if packed.returncode:
            raise SystemExit(f"this clone has no commit {commit!r}; fetch the whole history")
        tree.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(tree, filter="data")
    if (tree / "clients" / "counterpose").exists():
        # The installed programs name its modules, and PYTHONPATH says where these are.
        return Tree(tree)
    _write_programs(tree / "programs")
    _write_distribution(tree / "gateway")
    return Tree(tree, tree / "demo")


def _write_programs(folder: Path) -> None:
    """Write the tree's programs: the installed ones name modules that it does not have."""
    folder.mkdir(exist_ok=True)
    for name, module in PROGRAMS.items():
        _write(folder / name, f"#!{sys.executable}\nfrom {module} import main\n\nmain()\n")
    # By a script: a linked interpreter would not find this environment's packages.
    _write(folder / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')


def _write_distribution(folder: Path) -> None:
    """Write what an installer would record of the tree: it is on the path, not installed."""
    name, version = DISTRIBUTION
    record = folder / f"{name}-{version}.dist-info"
    record.mkdir(exist_ok=True)
    (record / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)
