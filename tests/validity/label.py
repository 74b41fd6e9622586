"""Edited pictures labelled by eye: export a blank sheet, or check what stands on it.

    python tests/validity/label.py export --sheets DIR    pictures of the newest finished run, and a table
    python tests/validity/label.py check [--table FILE]   enter a filled-in table; how often the oracle errs

The sheets show numbered pictures and nothing else: who labels them sees no caption, no edit and no judge.
What was asked of the pictures lies in `labels/asked.json`, not to be opened before the table is filled in.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from faultline_core.blobs import BlobStore
from faultline_core.images import decode_image
from oracle import Oracle
from validation.command import STATE
from validation.judging import SEEN
from validation.labelling import asked_of, blank_table, chosen, draw_sheets
from validation.labels import LABELS, enter, read_labels, write_labels
from validation.oracle_error import accuracy, rates_of
from validation.order import SOURCES, TESTED, generator
from validation.running import FINISHED
from validation.serving import STACK

PICTURES = 100
TABLE = "table.csv"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=Path, default=LABELS, help="the folder that is committed")
    verbs = parser.add_subparsers(dest="verb", required=True)
    export = verbs.add_parser("export", help="choose pictures and write sheets and a blank table")
    export.add_argument(
        "--state", type=Path, default=STATE, help="of the validation whose edits are labelled"
    )
    export.add_argument("--preset", default="quick")
    export.add_argument("--seed", type=int, default=0)
    export.add_argument("--count", type=int, default=PICTURES)
    export.add_argument("--sheets", type=Path, required=True, help="where sheets and table go")
    check = verbs.add_parser("check", help="say how often the oracle errs on the labelled pictures")
    check.add_argument("--table", type=Path, help="a filled-in table to enter first")
    return parser.parse_args(arguments)


def finished_run(state: Path, preset: str, seed: int) -> Path:
    """The folder of the newest finished run.

    Raises:
        SystemExit: there is none.
    """
    found = list((state / "runs").glob(f"{preset}-{seed}-*/{TESTED}"))
    if not found:
        raise SystemExit(f"no run of seed {seed} under preset {preset!r} has finished in {state}")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def export(given: argparse.Namespace) -> None:
    """Choose pictures; write them with what was asked, and sheets and a table that show only them."""
    run = finished_run(given.state, given.preset, given.seed)
    items = FINISHED.validate_json((run / TESTED).read_bytes()).items
    scenes = SEEN.validate_json((run / SOURCES).read_bytes())
    asked = [
        asked_of(item, scenes[item.source_image]) for item in chosen(items, given.count, generator("labels"))
    ]
    store = BlobStore(str(given.state / STACK / "store"))
    pictures = np.stack([decode_image(store.get(one.picture)) for one in asked])
    write_labels(given.labels, asked, pictures)
    draw_sheets(pictures, given.sheets)
    (given.sheets / TABLE).write_text(blank_table(len(asked)), encoding="utf-8")
    sys.stdout.write(f"{len(asked)} pictures: fill in {given.sheets / TABLE}, then `check --table` it\n")


def check(given: argparse.Namespace) -> None:
    """Enter a table where one is given; print the oracle's accuracy and its error rates on each measure."""
    if given.table is not None:
        enter(given.table, given.labels)
    labelled = read_labels(given.labels)
    if not labelled:
        raise SystemExit(f"nothing is labelled in {given.labels}")
    seen = Oracle.load().attributes(np.stack([one.picture for one in labelled]))
    for name, found in accuracy(zip(seen, [one.seen for one in labelled], strict=True)).items():
        sys.stdout.write(f"{name:14} {found}\n")
    for name, rates in rates_of(labelled, seen).items():
        right, wrong = (f"{rates.hits} of {rates.true}", f"{rates.rejections} of {rates.false}")
        sys.stdout.write(f"{name:14} right ones called right: {right}, wrong ones called wrong: {wrong}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Export or check."""
    given = parsed(arguments)
    {"export": export, "check": check}[given.verb](given)


if __name__ == "__main__":
    main()
