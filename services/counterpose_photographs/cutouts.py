"""Photographic cut-outs of animals and fruit, with exact outlines, that a Debian package ships.

The images are under the GPL: they are read where the package is installed, else of one that is fetched.
None is in this repository.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

PACKAGE = "tuxpaint-stamps-default"
INSTALLED = Path("/usr/share/tuxpaint/stamps")
FETCH_S = 90.0
"""How long the package of 161 MB may take; the demo then goes on with other images."""
_MEMBERS = "./usr/share/tuxpaint/stamps/"


def labels() -> dict[str, str]:
    """Return the class of ImageNet-1k that each cut-out shows, by its path below the package's folder."""
    table = tomllib.loads(Path(__file__).with_name("cutouts.toml").read_text(encoding="utf-8"))
    return {f"{folder}/{file}.png": label for folder, rows in table.items() for file, label in rows.items()}


def cutouts() -> dict[str, Image.Image]:
    """Return the cut-outs (RGBA) by path, in the table's order; none where the package cannot be had."""
    found = _installed() or _fetched()
    return {path: Image.open(io.BytesIO(found[path])).convert("RGBA") for path in labels() if path in found}


def _installed() -> dict[str, bytes]:
    files = {path: INSTALLED / path for path in labels()}
    return {path: file.read_bytes() for path, file in files.items() if file.is_file()}


def _fetched() -> dict[str, bytes]:
    """Let apt fetch the package and check its signature, and read it without installing anything."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"fetching the package {PACKAGE}, 161 MB\n")
        fetch = ["apt-get", "--quiet", "download", PACKAGE]
        try:
            subprocess.run(fetch, cwd=folder, check=True, timeout=FETCH_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            sys.stdout.write(f"it cannot be had: {error}\n")
            return {}
        (package,) = Path(folder).glob("*.deb")
        return _members(package, labels())


def _members(package: Path, wanted: Mapping[str, str]) -> dict[str, bytes]:
    """Read files of a package as a stream: unpacked it would take twice its place."""
    found: dict[str, bytes] = {}
    unpacking = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(unpacking, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        with tarfile.open(fileobj=program.stdout, mode="r|") as members:
            for member in members:
                path = member.name.removeprefix(_MEMBERS)
                if member.isreg() and path in wanted:
                    content = members.extractfile(member)
                    assert content is not None  # a regular file
                    found[path] = content.read()
    return found
