"""``counterpose thresholds``: show, inspect, judge and set the shift thresholds of a benchmark."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from counterpose._calls import segment
from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, ImageFolder, Url
from counterpose._cli.tables import decision_text, inspections_text, thresholds_text
from counterpose._cli.terminal import check_image_folder, connected, print_note, show
from counterpose._files import write_bytes
from counterpose._sync.client import Client
from counterpose._sync.shift_benchmarks import ShiftBenchmark
from counterpose_core.contract.shift_benchmarks import ImageSource
from counterpose_core.contract.shift_thresholds import Inspections, ShiftThresholdSet
from counterpose_core.errors import InvalidRequest

IMAGE_SOURCES = ", ".join(get_args(ImageSource))
NOTHING_PASSES = "none"
LEADING_MINUS = {"ignore_unknown_options": True}
"""A similarity may be negative: without this setting -0.1 is read as an option."""

Benchmark = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="The benchmark's run id, the beginning of it, or @last.")
]
Shift = Annotated[str, typer.Argument(metavar="SHIFT", help="The name of one of its shifts.")]
ImageSourceOption = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE_SOURCE", help=f"The image source: {IMAGE_SOURCES}; default: the benchmark's first."
    ),
]
Author = Annotated[str, typer.Option(metavar="NAME", help="Who decides; stored with the decision.")]
Threshold = Annotated[
    str, typer.Argument(metavar="THRESHOLD", help="A similarity from -1 to 1, or none: then no image passes.")
]
Shows = Annotated[
    list[str] | None, typer.Option(metavar="ITEM", help="An item that shows the shift. Repeatable.")
]
Lacks = Annotated[
    list[str] | None, typer.Option(metavar="ITEM", help="An item that lacks the shift. Repeatable.")
]


app = group("Show and set the thresholds of a shift benchmark.")


@app.command(epilog=examples("counterpose thresholds inspect @last 'in the snow' --out look"))
def inspect(
    benchmark: Benchmark,
    shift: Shift,
    image_source: ImageSourceOption = None,
    out: ImageFolder = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """List the images to inspect before setting a shift's threshold.

    They lie around fixed percentiles of similarity to the shift.
    """
    with connected(url) as client:
        check_image_folder(out)
        chosen = None if image_source is None else _image_source(image_source)
        run = _benchmark(client, benchmark)
        answer = run.inspections(shift, image_source=chosen)
        paths = {} if out is None else _saved(run, answer, out)
        show(answer, inspections_text(answer, paths), as_json)
        pending = f", {answer.pending} more pending" if answer.pending else ""
        print_note(f"Do they show {answer.caption!r}? {answer.n} images from {answer.image_source}{pending}")


@app.command("show", epilog=examples("counterpose thresholds show @last"))
def show_thresholds(benchmark: Benchmark, as_json: AsJson = False, url: Url = None) -> None:
    """Show a benchmark's shift thresholds and every decision on them."""
    with connected(url) as client:
        thresholds = _benchmark(client, benchmark).shift_thresholds()
        show(thresholds, thresholds_text(thresholds), as_json)


@app.command(
    "set",
    context_settings=LEADING_MINUS,
    epilog=examples("counterpose thresholds set @last 'in the snow' 0.21 --author Ada"),
)
def set_threshold(
    benchmark: Benchmark,
    shift: Shift,
    threshold: Threshold,
    author: Author,
    image_source: ImageSourceOption = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Set the similarity from which images count as showing a shift.

    The decision changes the summary and report at once; no image is generated again.
    """
    with connected(url) as client:
        chosen = None if image_source is None else _image_source(image_source)
        body = ShiftThresholdSet(author=author, threshold=_similarity(threshold))
        run = _benchmark(client, benchmark)
        decision = run.set_shift_threshold(shift, body.threshold, body.author, image_source=chosen)
        show(decision, decision_text(decision), as_json)


@app.command(
    epilog=examples("counterpose thresholds judge @last 'in the snow' --author Ada --shows ITEM --lacks ITEM")
)
def judge(
    benchmark: Benchmark,
    shift: Shift,
    author: Author,
    shows: Shows = None,
    lacks: Lacks = None,
    image_source: ImageSourceOption = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Set a shift's threshold by judging every inspected image.

    `counterpose thresholds inspect` lists the images.
    """
    with connected(url) as client:
        chosen = None if image_source is None else _image_source(image_source)
        body = ShiftThresholdSet(author=author, shows=_judgements(shows or [], lacks or []))
        run = _benchmark(client, benchmark)
        decision = run.judge_shift(shift, body.shows or {}, body.author, image_source=chosen)
        show(decision, decision_text(decision), as_json)


def _image_source(name: str) -> ImageSource:
    """Return the image source of this name.

    Raises:
        InvalidRequest: there is no such image source.
    """
    if name not in get_args(ImageSource):
        raise InvalidRequest(f"unknown image source {name!r}: choose from {IMAGE_SOURCES}")
    return cast("ImageSource", name)


def _benchmark(client: Client, run: str) -> ShiftBenchmark:
    found = client.runs.get(run, kind="shift-benchmark")
    assert isinstance(found, ShiftBenchmark)
    return found


def _saved(run: ShiftBenchmark, answer: Inspections, folder: Path) -> dict[tuple[float, str], Path]:
    """Save the images, named by percentile and item; one image may belong to several percentiles."""
    download = cache(run.image)
    return {
        (row.percentile, inspected.item): write_bytes(
            folder / f"{row.percentile:05.1f}-{segment(inspected.item)}.png", download(inspected.image)
        )
        for row in answer.inspections
        for inspected in row.images
    }


def _similarity(text: str) -> float | None:
    if text.lower() == NOTHING_PASSES:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InvalidRequest(f"a threshold is a similarity or {NOTHING_PASSES}, not {text!r}") from error


def _judgements(shows: list[str], lacks: list[str]) -> dict[str, bool]:
    both = sorted(set(shows) & set(lacks))
    if both:
        raise InvalidRequest(f"{both[0]!r} is given to both --shows and --lacks")
    if not shows and not lacks:
        raise InvalidRequest("no image was judged: pass each inspected item to --shows or --lacks")
    return dict.fromkeys(shows, True) | dict.fromkeys(lacks, False)
