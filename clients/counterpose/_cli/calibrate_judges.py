"""``counterpose calibrate-judges``: how far a run's judges agree with people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, OneRun, Url
from counterpose._cli.terminal import connected, print_note, print_result
from counterpose._sync.stress_tests import StressTest
from counterpose_core.contract.judges import Calibration
from counterpose_core.errors import InvalidRequest
from counterpose_core.folder_metadata import read_rows

Labels = Annotated[
    Path, typer.Option(metavar="FILE", help="A .csv or .jsonl file with item and right, which is yes or no.")
]
Against = Annotated[str, typer.Option(metavar="TEXT", help="Whose labels they are.")]

EXAMPLES = examples('counterpose calibrate-judges 3fa8 --labels labels.csv --against "ratings of two people"')


def calibrate_judges(
    labels: Labels, against: Against, run: OneRun = "@last", as_json: AsJson = False, url: Url = None
) -> None:
    """Hold a run's judges against labels that people gave.

    What is printed belongs in the suite's file: reports of later runs tell it beside each judge's verdicts.
    """
    with connected(url) as client:
        labels_by_item = _read(labels)
        found = client.runs.get(run, kind="stress-test")
        assert isinstance(found, StressTest)
        calibrations = found.calibrate_judges(labels_by_item, against=against)
        counts = {name: each.model_dump() for name, each in calibrations.items()}
        print_result(
            json.dumps(counts) if as_json else "\n\n".join(map(_toml, calibrations, calibrations.values()))
        )
        print_note(f"{len(labels_by_item)} labels; add this to the suite's file")
        for name in sorted(
            name for name, each in calibrations.items() if name != "clip" and each.model is None
        ):
            print_note(f"the run recorded no model of {name}: a suite believes this of any")


def _toml(name: str, counts: Calibration) -> str:
    fields = counts.model_dump()
    gate = fields.pop("gate", None)
    tables = {name: fields} | ({} if gate is None else {f"{name}.gate": gate})
    # A string of JSON, a number or a truth value is one of TOML.
    lines = [
        [f"[calibrations.{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        for table, values in tables.items()
    ]
    return "\n".join(line for table in lines for line in table)


def _read(file: Path) -> dict[str, bool]:
    labels: dict[str, bool] = {}
    for number, row in read_rows(file):
        item, right = row.get("item"), row.get("right")
        if not isinstance(item, str) or right not in ("yes", "no") or item in labels:
            raise InvalidRequest(
                f"line {number} of {str(file)!r} needs an item, once, and yes or no in right, not "
                f"{dict(row)!r}"
            )
        labels[item] = right == "yes"
    return labels
