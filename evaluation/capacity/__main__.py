"""Measures each engine's rate by the size of its calls: ``make capacity``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from counterpose_services.settings import SERVICES, ServiceSettings
from evaluation.benchmarks.machine import this_machine
from evaluation.capacity.measure import measured, private
from evaluation.capacity.report import CAPACITY, CapacityReport, Engine


def main(arguments: Sequence[str] | None = None) -> None:
    """Write `results/capacity.json`; with ``--only``, replace these services' part of it."""
    parser = argparse.ArgumentParser(prog="make capacity", description=__doc__)
    parser.add_argument("--suite", default="miniature", help="a suite's name or file")
    parser.add_argument("--device", default="cpu", help="device of the models, such as cuda")
    parser.add_argument("--only", default=",".join(SERVICES), help="services, separated by commas")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds that are timed")
    parser.add_argument("--out", type=Path, default=CAPACITY)
    given = parser.parse_args(arguments)
    wanted = [service for service in SERVICES if service in given.only.split(",")]
    settings = ServiceSettings.model_validate({"suite": given.suite, "device": given.device})
    engines = {engine.service: engine for engine in _earlier(given.out, given.suite)}
    for service in tqdm(wanted, desc="services"):
        with tempfile.TemporaryDirectory(prefix="counterpose-capacity-") as folder:
            engines[service] = measured(
                service, private(settings, Path(folder)), repetitions=given.repetitions
            )
    report = CapacityReport(
        machine=this_machine(given.device),
        suite=given.suite,
        engines=tuple(engines[service] for service in SERVICES if service in engines),
    )
    given.out.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for engine in report.engines:
        sys.stdout.write(
            f"{engine.service}: {engine.enough} items a call, {engine.gain:.1f} times the rate of one\n"
        )


def _earlier(file: Path, suite: str) -> tuple[Engine, ...]:
    if not file.exists():
        return ()
    report = CapacityReport.model_validate_json(file.read_bytes())
    return report.engines if report.suite == suite else ()


if __name__ == "__main__":
    main()
