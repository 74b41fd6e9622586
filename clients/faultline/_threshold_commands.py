"""``faultline inspections``, ``shift-thresholds``, ``set-shift-threshold`` and ``judge-shift``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, get_args

import typer

from faultline._benchmark_commands import known_source
from faultline._calls import segment
from faultline._files import write_bytes
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline._terminal import AsJson, Url, check_folder, complain, connected, show
from faultline._threshold_tables import decision_line, inspections_table, thresholds_table
from faultline_core.contract.shift_benchmarks import BenchmarkSource
from faultline_core.contract.shift_thresholds import Inspections, ShiftThresholdSet
from faultline_core.errors import InvalidRequest

NOTHING_PASSES = "none"
LEADING_MINUS = {"ignore_unknown_options": True}
"""A similarity may be below zero: without this -0.1 is read as an option."""

Benchmark = Annotated[str, typer.Argument(help="The benchmark's run id.")]
Shift = Annotated[str, typer.Argument(help="One of its shifts, by name.")]
Source = Annotated[
    str | None,
    typer.Option(help=f"Whose pictures: {', '.join(get_args(BenchmarkSource))}; default: the first."),
]
Author = Annotated[str, typer.Option(help="Who decides; kept with the decision.")]
Out = Annotated[Path | None, typer.Option(help="Save the pictures into this folder.")]


def inspections(
    benchmark: Benchmark,
    shift: Shift,
    source: Source = None,
    out: Out = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Show what to look at before a shift's threshold is set: pictures around fixed percentiles."""
    with connected(url) as client:
        check_folder(out)
        taken = None if source is None else known_source(source)
        run = client.shift_benchmarks.get(benchmark)
        seen = run.inspections(shift, source=taken)
        places = {} if out is None else _saved(run, seen, out)
        show(seen, inspections_table(seen, places), as_json)
        more = f", {seen.pending} more may come" if seen.pending else ""
        complain(f"does it show {seen.caption!r}? {seen.n} pictures by {seen.source}{more}")


def shift_thresholds(benchmark: Benchmark, as_json: AsJson = False, url: Url = None) -> None:
    """Show the shift thresholds of a benchmark that are in force, and every decision on them."""
    with connected(url) as client:
        found = client.shift_benchmarks.get(benchmark).shift_thresholds()
        show(found, thresholds_table(found), as_json)


def set_shift_threshold(
    benchmark: Benchmark,
    shift: Shift,
    threshold: Annotated[str, typer.Argument(help="Similarity, -1 to 1, or none: then nothing passes.")],
    author: Author,
    source: Source = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Decide from which similarity on pictures show a shift; summary and report go by it at once."""
    with connected(url) as client:
        taken = None if source is None else known_source(source)
        told = ShiftThresholdSet(author=author, threshold=_similarity(threshold))
        run = client.shift_benchmarks.get(benchmark)
        made = run.set_shift_threshold(shift, told.threshold, told.author, source=taken)
        show(made, decision_line(made), as_json)


def judge_shift(
    benchmark: Benchmark,
    shift: Shift,
    author: Author,
    shows: Annotated[list[str] | None, typer.Option(help="An item that shows it. Repeatable.")] = None,
    lacks: Annotated[list[str] | None, typer.Option(help="An item that does not. Repeatable.")] = None,
    source: Source = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Set a shift's threshold by what you saw on every picture of `faultline inspections`."""
    with connected(url) as client:
        taken = None if source is None else known_source(source)
        told = ShiftThresholdSet(author=author, shows=_judged(shows or [], lacks or []))
        run = client.shift_benchmarks.get(benchmark)
        made = run.judge_shift(shift, told.shows or {}, told.author, source=taken)
        show(made, decision_line(made), as_json)


def _saved(run: ShiftBenchmark, seen: Inspections, folder: Path) -> dict[tuple[float, str], Path]:
    """Write the pictures in the order of their percentiles; one may lie around several."""
    picture = cache(run.picture)
    return {
        (row.percentile, each.item): write_bytes(
            folder / f"{row.percentile:05.1f}-{segment(each.item)}.png", picture(each.image)
        )
        for row in seen.inspections
        for each in row.pictures
    }


def _similarity(told: str) -> float | None:
    if told.lower() == NOTHING_PASSES:
        return None
    try:
        return float(told)
    except ValueError as error:
        raise InvalidRequest(f"a threshold is a similarity or {NOTHING_PASSES}, not {told!r}") from error


def _judged(shows: list[str], lacks: list[str]) -> dict[str, bool]:
    both = sorted(set(shows) & set(lacks))
    if both:
        raise InvalidRequest(f"{both[0]!r} cannot both show the shift and lack it")
    if not shows and not lacks:
        raise InvalidRequest("no picture was judged: name each by --shows or --lacks")
    return dict.fromkeys(shows, True) | dict.fromkeys(lacks, False)
