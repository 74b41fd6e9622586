"""``counterpose shift-benchmark`` and ``counterpose compare-prompts``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from counterpose._cli.classifiers import reachable
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import (
    AsJson,
    Classifiers,
    ClassName,
    Detach,
    InterfaceId,
    Report,
    Seed,
    Steps,
    Url,
)
from counterpose._cli.tables import prompts_text, shift_benchmark_text
from counterpose._cli.terminal import connected, print_note
from counterpose._files import write_text
from counterpose._sync.client import Client
from counterpose._sync.runs import LAST, is_beginning
from counterpose._sync.shift_benchmarks import ShiftBenchmark
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import CATALOGUE, ImageSource
from counterpose_core.errors import InvalidRequest

IMAGE_SOURCES = ", ".join(get_args(ImageSource))

Count = Annotated[int, typer.Option("--per-class", metavar="N", help="Images per class and shift.")]
Real = Annotated[
    int,
    typer.Option("--real-per-class", metavar="N", help="Real images per class, for thresholds and controls."),
]
Shifts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SHIFT",
        help="'in the snow', a name of the catalogue, or a prompt with <class>. Repeatable; "
        "default: the whole catalogue.",
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", metavar="CLASS", help="A class to test. Repeatable; default: all."),
]
ImageSources = Annotated[
    list[str] | None,
    typer.Option(
        metavar="IMAGE_SOURCE", help=f"Where images come from: {IMAGE_SOURCES}. Repeatable; default: token."
    ),
]
Retrieval = Annotated[
    str | None, typer.Option(metavar="DATASET", help="The dataset that --image-source retrieval searches.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Write report.html and summary.json to this folder."),
]
Prompts = Annotated[
    list[str],
    typer.Option(metavar="PROMPT", help="'a photo of an empty <class>', 'in the grass', ... Repeatable."),
]


EXAMPLES = examples(
    "counterpose shift-benchmark 3fa8 --classifier leaning-resnet --shift 'in the snow' --out bench",
    codes=True,
)
PROMPT_EXAMPLES = examples(
    "counterpose compare-prompts 3fa8 plate --prompt 'a photo of an empty <class>' --classifier leaning-vit",
    codes=True,
)


def shift_benchmark(
    interface: InterfaceId,
    classifier: Classifiers,
    shift: Shifts = None,
    classes: Classes = None,
    image_source: ImageSources = None,
    retrieval: Retrieval = None,
    n: Count = 8,
    real: Real = 50,
    steps: Steps = None,
    seed: Seed = 0,
    report: Report = None,
    out: Out = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Benchmark classifiers on shifts of an interface's classes."""
    with connected(url) as client:
        output = Output(report=_report_path(report, out), detach=detach, as_json=as_json)
        image_sources = [image_source_named(name) for name in image_source or ("token",)]
        create = partial(
            client.shift_benchmarks.create,
            interface=_interface_id(client, interface),
            shifts=shift or CATALOGUE,
            classes=classes or None,
            image_sources=image_sources,
            retrieval=retrieval,
            n=n,
            real=real,
            steps=steps,
            seed=seed,
        )
        _follow(client, classifier, create, _saving_summary(out, shift_benchmark_text), output)


def compare_prompts(
    interface: InterfaceId,
    class_name: ClassName,
    prompt: Prompts,
    classifier: Classifiers,
    n: Count = 16,
    real: Real = 50,
    steps: Steps = None,
    seed: Seed = 0,
    report: Report = None,
    out: Out = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Compare prompts of one class, by its token and by its plain name."""
    with connected(url) as client:
        output = Output(report=_report_path(report, out), detach=detach, as_json=as_json)
        create = partial(
            client.shift_benchmarks.create,
            interface=_interface_id(client, interface),
            shifts=prompt,
            classes=[class_name],
            image_sources=["token", "class-name"],
            n=n,
            real=real,
            steps=steps,
            seed=seed,
        )
        _follow(client, classifier, create, _saving_summary(out, prompts_text), output)


def _follow(
    client: Client,
    classifiers: list[str],
    create: Callable[..., ShiftBenchmark],
    render: Callable[[ShiftBenchmarkSummary], str],
    output: Output,
) -> None:
    """Serve the functions among the classifiers, start the benchmark and follow it."""
    specs = reachable(client, classifiers, detach=output.detach)
    create_and_follow(lambda: create(classifiers=specs), render, output, serves_function=specs != classifiers)


def _interface_id(client: Client, run: str) -> str:
    """Return the whole id of an interface, which a request takes."""
    if run == LAST or is_beginning(run):
        return client.runs.get(run, kind="dataset-interface").id
    return run


def image_source_named(name: str) -> ImageSource:
    """Return the image source of this name.

    Raises:
        InvalidRequest: there is no such image source.
    """
    if name not in get_args(ImageSource):
        raise InvalidRequest(f"unknown image source {name!r}: choose from {IMAGE_SOURCES}")
    return cast("ImageSource", name)


def _report_path(report: Path | None, out: Path | None) -> Path | None:
    """Make the output folder now: one that cannot be made is rejected before hours of work."""
    if out is None:
        return report
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"cannot write to the folder {str(out)!r}: {error}") from error
    return report or out / "report.html"


def _saving_summary(
    out: Path | None, render: Callable[[ShiftBenchmarkSummary], str]
) -> Callable[[ShiftBenchmarkSummary], str]:
    def save_and_render(summary: ShiftBenchmarkSummary) -> str:
        if out is not None:
            path = write_text(out / "summary.json", summary.model_dump_json(indent=2, by_alias=True))
            print_note(f"summary written to {path}")
        return render(summary)

    return save_and_render
