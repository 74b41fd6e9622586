"""Simulate large runs: ``python -m evaluation.scale [--gpus 64] [--price 2.5] [--gpu h100] [--calibrate]``.

Without options, writes the table of all sizes to ``results/scale.json``. With ``--calibrate``, first measures
workers on this machine, which takes ten minutes of both cores. Says nothing of GPUs if the model is wrong
about what was measured here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from evaluation.scale.prediction import SIZES, table
from evaluation.scale.report import SCALE, WITHIN, Predicted, ScaleReport, read_scale
from evaluation.scale.workloads import GPUS, workloads


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate if asked, then print the table; 1 if the calibration does not hold."""
    given = _parser().parse_args(arguments)
    known = read_scale() if SCALE.exists() else None
    if given.calibrate or known is None:
        # Needs PostgreSQL and the tests' fakes, which the table does without.
        from evaluation.scale.calibration import calibrate

        measured = calibrate()
        known = measured.model_copy(update={} if known is None else {"table": known.table})
        _write(known)
    sys.stdout.write(judgement(known))
    if not known.holds:
        return 1
    gpu = GPUS[given.gpu]
    gpu = gpu if given.price is None else replace(gpu, price=given.price)
    rows = tuple(table(known.fitted, workloads(), gpu, SIZES if given.gpus is None else (given.gpus,)))
    sys.stdout.write(told(rows))
    if given.gpus is None and given.price is None and given.gpu == "h100":
        _write(known.model_copy(update={"table": rows}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--gpus", type=int, help="how many; default: 8, 64 and 512")
    parser.add_argument("--price", type=float, help="dollars a GPU an hour; default: an assumption")
    parser.add_argument("--gpu", choices=tuple(GPUS), default="h100")
    parser.add_argument("--calibrate", action="store_true", help="measure this machine first")
    return parser


def _write(report: ScaleReport) -> None:
    SCALE.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


def judgement(report: ScaleReport) -> str:
    """Say how far the model is from what was measured."""
    lines = [
        f"{each.regime}, {each.workers} workers: predicted {each.predicted:.1f} items/s, "
        f"measured {each.middle:.1f} (n = {len(each.measured)}): {each.error:+.1%}"
        for each in report.judged
    ]
    verdict = "all within" if report.holds else "not all within"
    return "\n".join([*lines, f"{verdict} {WITHIN:.0%}"]) + "\n"


def told(rows: Iterable[Predicted]) -> str:
    """Return the table as lines of text."""
    return "\n".join(map(_told, rows)) + "\n"


def _told(row: Predicted) -> str:
    busy = ", ".join(f"{name} {share:.0%}" for name, share in row.busy.items())
    return (
        f"{row.workload}, {row.gpus} x {row.gpu}: {row.hours:,.1f} h "
        f"({row.least_hours:,.1f} to {row.most_hours:,.1f}), {row.gpu_hours:,.0f} GPU-hours, "
        f"${row.gpu_hours * row.price:,.0f} at ${row.price:g} an hour, "
        f"${row.dollars_an_image:.4f} an image (published: {row.published_gpu_hours:,.0f} GPU-hours, "
        f"${row.published_dollars_an_image:.4f}); busiest: {row.binds} ({busy}); "
        f"before: {row.before_items_per_second:,.0f} of {row.items_per_second:,.0f} items/s, "
        f"busiest: {row.before_binds}; {row.workers} workers x {row.hands} hands, "
        f"{row.database_cores:.1f} cores for the database, {row.store_megabytes:,.0f} MB/s to the store"
    )


if __name__ == "__main__":
    sys.exit(main())
