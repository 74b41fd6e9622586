#!/usr/bin/env python3
"""Rename the product, Faultline, to Counterpose in every tracked file and path; run once, then remove this script.

What keeps the old name is listed in KEEP and KEEP_LINE: it speaks of an earlier commit, or enters a seed. Only text changes, then ruff sorts the
imports and formats, since a longer name moves both. Strings that enter a seed do not hold the name (the test of pinned
seeds says so).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

NAMES = (("faultline", "counterpose"), ("Faultline", "Counterpose"), ("FAULTLINE", "COUNTERPOSE"))
API_KEY = re.compile(r'\bfl_(?=no"|[0-9{(])')  # API keys begin with the initials
KEEP = {".ci/rename_product.py", "evaluation/product_speed/earlier.py"}
KEEP_LINE = re.compile(r'^(_TOOL_SEED|EARLIER_PACKAGE) = ')  # enters a seed; the package of an earlier commit
CODE = ("clients", "gateway", "services", "suites", "integrations", "tests", "demo", "docs", "evaluation")


def renamed(text: str) -> str:
    """Return the text with the new name."""
    lines = text.splitlines(keepends=True)
    return "".join(line if KEEP_LINE.match(line) else _renamed(line) for line in lines)


def _renamed(line: str) -> str:
    for old, new in NAMES:
        line = line.replace(old, new)
    return API_KEY.sub("cp_", line)


def main() -> None:
    """Rename the contents, then the paths, then sort imports and format."""
    listing = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    paths = [path for path in listing.split("\0") if path and path not in KEEP]
    for path in paths:
        file = pathlib.Path(path)
        if file.is_symlink():
            continue
        content = file.read_bytes()
        if not (b"faultline" in content.lower() or b"fl_" in content):
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            sys.stderr.write(f"{path} holds the old name but is no text: left alone\n")
            continue
        file.write_bytes(renamed(text).encode("utf-8"))
    for path in paths:
        if renamed(path) != path:
            pathlib.Path(renamed(path)).parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, renamed(path))
    subprocess.run(["git", "add", "--all", "."], check=True)
    ruff = os.environ.get("RUFF", ".venv/bin/ruff")
    folders = [folder for folder in CODE if pathlib.Path(folder).is_dir()]
    for select in (["check", "--quiet", "--select", "I,RUF022", "--fix"], ["format", "--quiet"]):
        subprocess.run([ruff, *select, *folders], check=False)
    subprocess.run(["git", "add", "--all", "."], check=True)


if __name__ == "__main__":
    main()
