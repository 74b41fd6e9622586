"""Prints a page of the wheels in pip's folders of links, each with its hash.

pip takes a file whose hash its link tells before one that it would have to read: without this page, PyTorch's
build with CUDA from the index before the one for CPUs that lies on the disk.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def page(folders: Iterable[Path]) -> str:
    """Return links to the wheels of some folders, as pip reads them by ``--find-links``."""
    files = sorted(file for folder in folders for file in folder.glob("*.whl"))
    return "".join(
        f'<a href="{file.as_uri()}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}">{file.name}</a>\n'
        for file in files
    )


def folders() -> list[Path]:
    """Return the folders that pip's settings name, by file or variable."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    named = re.findall(r"find-links='([^']*)'", told)
    return sorted({Path(each).resolve() for line in named for each in line.split() if Path(each).is_dir()})


if __name__ == "__main__":
    sys.stdout.write(page(folders()))
