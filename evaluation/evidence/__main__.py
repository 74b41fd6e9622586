"""Writes the pages of evidence, with their entries elsewhere: ``python -m evaluation.evidence``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evaluation.evidence.pages import EVIDENCE, outdated, pages
from evaluation.paths import ROOT


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages, or with ``--check`` name those that are not current."""
    parser = argparse.ArgumentParser(prog="make evidence", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is outdated")
    if parser.parse_args(arguments).check:
        if found := outdated():
            names = ", ".join(str(path.relative_to(ROOT)) for path in found)
            raise SystemExit(f"not current: {names}; run `make evidence`")
        return
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
