"""Measure load and write ``results/load.json``: ``python -m evaluation.load [--only leases] [--quick]``.

Rows of groups that are not measured are kept as the file has them. Ends with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from evaluation.load import leases, ledger, pipeline, submissions, summaries
from evaluation.load.benchmarks import benchmarks
from evaluation.load.fleets import fleets
from evaluation.load.headers import headers
from evaluation.load.hunts import hunts
from evaluation.load.imports import imports
from evaluation.load.listeners import listeners, mixed
from evaluation.load.measuring import SOAK_SECONDS, Load
from evaluation.load.overload import overload
from evaluation.load.pages import pages
from evaluation.load.perturber import perturber
from evaluation.load.planning import planning
from evaluation.load.report import Growth, LoadMachine, LoadReport, LoadRow
from evaluation.load.soak import soak
from evaluation.load.sockets import sockets
from evaluation.load.startup import startup
from evaluation.load.status import status
from evaluation.load.uploads import uploads
from evaluation.paths import RESULTS

LOAD = RESULTS / "load.json"

Group = Callable[[Load], Iterator[LoadRow | Growth]]

GROUPS: Mapping[str, Group] = {
    "leases": leases.measure,
    "ledger": ledger.measure,
    "submissions": submissions.measure,
    "pipeline": pipeline.measure,
    "fleet": fleets,
    "pages": pages,
    "listeners": listeners,
    "mixed": mixed,
    "status": status,
    "overload": overload,
    "planning": planning,
    "imports": imports,
    "startup": startup,
    "summaries": summaries.measure,
    "benchmarks": benchmarks,
    "hunts": hunts,
    "headers": headers,
    "sockets": sockets,
    "uploads": uploads,
    "perturber": perturber,
    "soak": soak,
}
"""By name: each yields rows and growth as they are measured."""


def measure(
    names: Sequence[str], *, quick: bool, known: LoadReport | None, soak_seconds: float = SOAK_SECONDS
) -> LoadReport:
    """Return the report: the named groups measured now, the others as they are known."""
    machine = LoadMachine(
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
    )
    rows = [] if known is None else [each for each in known.rows if each.group not in names]
    growth = [] if known is None else [each for each in known.growth if each.group not in names]
    for name in tqdm(names, desc="load"):
        with tempfile.TemporaryDirectory() as folder:
            for found in GROUPS[name](Load(Path(folder), quick, soak_seconds)):
                if isinstance(found, LoadRow):
                    rows.append(found)
                else:
                    growth.append(found)
    place = {name: number for number, name in enumerate(GROUPS)}
    rows.sort(key=lambda each: place[each.group])
    return LoadReport(machine=machine, rows=tuple(rows), growth=tuple(growth))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the file, and say which targets were missed."""
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, by comma")
    parser.add_argument("--quick", action="store_true", help="small sizes, seconds each")
    parser.add_argument("--out", type=Path, default=LOAD)
    parser.add_argument("--soak-seconds", type=float, default=SOAK_SECONDS, help="length of the soak")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name]
    if unknown := [name for name in names if name not in GROUPS]:
        parser.error(f"no such group: {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    known = LoadReport.model_validate_json(given.out.read_bytes()) if given.out.exists() else None
    report = measure(names, quick=given.quick, known=known, soak_seconds=given.soak_seconds)
    given.out.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    missed = [each for each in report.rows if each.met is False]
    for each in missed:
        sys.stdout.write(f"missed: {each.name}: {each.value:g} {each.unit}, {each.side} {each.target:g}\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
