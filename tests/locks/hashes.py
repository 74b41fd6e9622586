"""``make lock``: writes the hash of every file that the index offers of each pinned version into a lock.

python -m locks.hashes LOCK [--pins FILE] [--cuda NAME ...] [--builds FOLDER]
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from locks.pins import Pins, pins_of, read_pins, written

CUDA = ("--python-platform", "x86_64-manylinux_2_28")


def compiled(pins: Pins, *options: str) -> Pins:
    """Return what uv resolves of these pins."""
    lines = "".join(f"{name}=={version}\n" for name, (version, _) in pins.items())
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    done = subprocess.run(
        [*command, *options, "-"], input=lines, text=True, stdout=subprocess.PIPE, check=True
    )
    return pins_of(done.stdout)


def builds_of(folder: Path) -> dict[tuple[str, str], set[str]]:
    """Return the hashes of a folder's wheels by name and public version: 2.13.0+cpu is a build of 2.13.0."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in folder.glob("*.whl"):
        name, version, _, _ = parse_wheel_filename(file.name)
        with file.open("rb") as opened:
            told = hashlib.file_digest(opened, "sha256").hexdigest()
        found.setdefault((canonicalize_name(name), version.public), set()).add(told)
    return found


def hashed(lock: Path, pins: Pins, cuda: Sequence[str], builds: Path | None) -> Pins:
    """Return the pins, and what ``cuda`` need besides on a machine with CUDA, with all hashes.

    Hashes that the lock has for the same version stay: they may be of builds that this index does not offer.
    """
    if cuda:
        pins = compiled({name: pins[name] for name in cuda}, *CUDA) | pins
    offered = compiled(pins, "--no-deps", "--generate-hashes")
    before, others = read_pins(lock), {} if builds is None else builds_of(builds)
    return {
        name: (
            version,
            hashes
            | (before[name][1] if before.get(name, ("",))[0] == version else frozenset())
            | others.get((name, version), set()),
        )
        for name, (version, hashes) in offered.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the lock and return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--pins", type=Path, help="take the pins of this file, not the lock's own")
    parser.add_argument("--cuda", nargs="+", default=(), help="add what these need on a machine with CUDA")
    parser.add_argument("--builds", type=Path, help="a folder of wheels of other builds of the same versions")
    given = parser.parse_args(arguments)
    pins = read_pins(given.pins or given.lock)
    given.lock.write_text(written(hashed(given.lock, pins, given.cuda, given.builds)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
