"""Exports edited images for labelling by eye, and compares the labels with the oracle.

    python -m evaluation.validity.label export --sheets DIR    choose images; write sheets and a blank table
    python -m evaluation.validity.label check [--table FILE]   enter a table; print how often the oracle errs

The sheets show numbered images only: the labeller sees no caption, no edit and no verdict. What was asked of
each image lies in `labels/asked.json`; do not open it before the table is filled in.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import decode_image
from evaluation.oracle import Oracle
from evaluation.validity.command import VALIDITY_STATE
from evaluation.validity.judging import SEEN
from evaluation.validity.labelling import asked_of, blank_table, chosen, draw_sheets
from evaluation.validity.labels import LABELS, enter, read_labels, write_labels
from evaluation.validity.oracle_error import accuracy, rates_of
from evaluation.validity.order import SOURCES, TESTED, generator
from evaluation.validity.running import FINISHED
from evaluation.validity.serving import STACK

IMAGES = 100
TABLE = "table.csv"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=Path, default=LABELS, help="folder of the committed labels")
    verbs = parser.add_subparsers(dest="verb", required=True)
    export = verbs.add_parser("export", help="choose images and write sheets and a blank table")
    export.add_argument(
        "--state",
        type=Path,
        default=VALIDITY_STATE,
        help="state folder of the validation whose edits are labelled",
    )
    export.add_argument("--preset", default="quick")
    export.add_argument("--seed", type=int, default=0)
    export.add_argument("--count", type=int, default=IMAGES)
    export.add_argument("--sheets", type=Path, required=True, help="folder for sheets and table")
    check = verbs.add_parser("check", help="print how often the oracle errs on the labelled images")
    check.add_argument("--table", type=Path, help="enter this filled-in table first")
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
    """Choose images; write them with what was asked, and sheets and a table that do not show it."""
    run = finished_run(given.state, given.preset, given.seed)
    items = FINISHED.validate_json((run / TESTED).read_bytes()).items
    scenes = SEEN.validate_json((run / SOURCES).read_bytes())
    asked = [
        asked_of(item, scenes[item.source_image]) for item in chosen(items, given.count, generator("labels"))
    ]
    store = BlobStore(str(given.state / STACK / "store"))
    images = np.stack([decode_image(store.get(one.image)) for one in asked])
    write_labels(given.labels, asked, images)
    draw_sheets(images, given.sheets)
    (given.sheets / TABLE).write_text(blank_table(len(asked)), encoding="utf-8")
    sys.stdout.write(f"{len(asked)} images: fill in {given.sheets / TABLE}, then `check --table` it\n")


def check(given: argparse.Namespace) -> None:
    """Enter a table where one is given; print the oracle's accuracy and its error rates on each measure."""
    if given.table is not None:
        enter(given.table, given.labels)
    labelled = read_labels(given.labels)
    if not labelled:
        raise SystemExit(f"nothing is labelled in {given.labels}")
    seen = Oracle.load().attributes(np.stack([one.image for one in labelled]))
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
