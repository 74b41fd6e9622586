"""What an image contains: a CycloneDX list of its Python packages, with versions and licences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

NO_LICENCE_AT_MOST = 0.1
"""Share of packages whose metadata names no licence in a form that is read."""


def list_environment(python: Path, out: Path) -> int:
    """Write what is installed beside ``python`` and return the number of packages.

    Raises:
        SystemExit: a package that pip knows is missing, or too many have no licence.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    _run("environment", str(python), out)
    components = json.loads(out.read_text(encoding="utf-8"))["components"]
    listed = {each["name"].lower().replace("_", "-"): each for each in components}
    command = [str(python), "-m", "pip", "list", "--format", "json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = {each["name"].lower().replace("_", "-") for each in found}
    if missing := names - set(listed):
        raise SystemExit(f"{out} lacks {sorted(missing)}")
    unlicensed = [name for name, each in listed.items() if not each.get("licenses")]
    if len(unlicensed) > NO_LICENCE_AT_MOST * len(listed):
        raise SystemExit(f"{len(unlicensed)} of {len(listed)} packages have no licence: {unlicensed}")
    sys.stdout.write(f"{out}: {len(listed)} packages, {len(unlicensed)} without a licence {unlicensed}\n")
    return len(listed)


def list_lock(lock: Path, out: Path) -> None:
    """Write what a lock names, for a stage that is not installed here."""
    out.parent.mkdir(parents=True, exist_ok=True)
    _run("requirements", str(lock), out)


def _run(kind: str, source: str, out: Path) -> None:
    options = ["--output-reproducible", "--output-file", str(out)]
    command = [sys.executable, "-m", "cyclonedx_py", kind, source, *options]
    subprocess.run(command, check=True)
