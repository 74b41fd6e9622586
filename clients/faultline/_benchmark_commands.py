"""``faultline shift-benchmark`` and ``faultline compare-prompts``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from faultline._classifier_commands import reachable
from faultline._client import Client
from faultline._ending import Detach, Report, see_through
from faultline._files import write_text
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline._stress_test_commands import Classifiers, Seed
from faultline._summary_tables import prompts_table
from faultline._terminal import AsJson, Url, check_writable, complain, connected, show
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import CATALOGUE, BenchmarkSource
from faultline_core.errors import InvalidRequest

Interface = Annotated[str, typer.Argument(help="The interface's run id.")]
Pictures = Annotated[int, typer.Option("--n", help="Pictures of each class and shift.")]
Real = Annotated[int, typer.Option(help="Real pictures of each class, for thresholds and controls.")]
Shifts = Annotated[
    list[str] | None,
    typer.Option(
        help="Such as 'in the snow', a name of the catalogue, or a prompt with <class>. Repeatable; "
        "default: the whole catalogue."
    ),
]
Classes = Annotated[list[str] | None, typer.Option(help="A class. Repeatable; default: all.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(help=f"Where pictures are from: {', '.join(get_args(BenchmarkSource))}. Repeatable."),
]
Retrieval = Annotated[str | None, typer.Option(help="The dataset that --source retrieval searches.")]
Steps = Annotated[int | None, typer.Option(help="Denoising steps; default: the suite's.")]
Out = Annotated[Path | None, typer.Option(help="Write report.html and summary.json into this folder.")]
Prompts = Annotated[
    list[str], typer.Option(help="Such as 'a photo of an empty <class>', or 'in the grass'. Repeatable.")
]


def shift_benchmark(
    interface: Interface,
    classifier: Classifiers,
    shift: Shifts = None,
    classes: Classes = None,
    source: Sources = None,
    retrieval: Retrieval = None,
    n: Pictures = 8,
    real: Real = 50,
    steps: Steps = None,
    seed: Seed = 0,
    report: Report = None,
    out: Out = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Say which shifts of an interface's classes break which classifiers."""
    with connected(url) as client:
        ask = partial(
            client.shift_benchmarks.create,
            interface=interface,
            shifts=shift or CATALOGUE,
            classes=classes or None,
            sources=[known_source(name) for name in source or ("token",)],
            retrieval=retrieval,
            n=n,
            real=real,
            steps=steps,
            seed=seed,
        )
        _benchmark(client, ask, str, classifier, report, out, detach=detach, as_json=as_json)


def compare_prompts(
    interface: Interface,
    class_name: Annotated[str, typer.Argument(metavar="CLASS", help="One of its classes.")],
    prompt: Prompts,
    classifier: Classifiers,
    n: Pictures = 16,
    real: Real = 50,
    steps: Steps = None,
    seed: Seed = 0,
    report: Report = None,
    out: Out = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Put prompts of one class side by side, by its token and by its plain name."""
    with connected(url) as client:
        ask = partial(
            client.shift_benchmarks.create,
            interface=interface,
            shifts=prompt,
            classes=[class_name],
            sources=["token", "class-name"],
            n=n,
            real=real,
            steps=steps,
            seed=seed,
        )
        _benchmark(client, ask, prompts_table, classifier, report, out, detach=detach, as_json=as_json)


def known_source(name: str) -> BenchmarkSource:
    """A source of pictures by its name.

    Raises:
        InvalidRequest: none is called so.
    """
    known = get_args(BenchmarkSource)
    if name not in known:
        raise InvalidRequest(f"no source is named {name!r}; there are {', '.join(known)}")
    return cast("BenchmarkSource", name)


def _benchmark(
    client: Client,
    ask: Callable[..., ShiftBenchmark],
    told: Callable[[ShiftBenchmarkSummary], str],
    classifier: list[str],
    report: Path | None,
    out: Path | None,
    *,
    detach: bool,
    as_json: bool,
) -> None:
    """``ask`` for a benchmark of these classifiers, and leave, or see it through to its exit code."""
    report = _report(report, out)
    served = reachable(client, classifier, detach=detach)
    run = ask(classifiers=served)
    if detach:
        show(run.run, run.id, as_json)
        return
    raise typer.Exit(see_through(run, _kept_in(out, told), report, as_json, ours=served != classifier))


def _report(report: Path | None, out: Path | None) -> Path | None:
    """Where the report goes; a place that cannot be written is refused now, and not after hours."""
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidRequest(f"nothing can be written into {str(out)!r}: {error}") from error
        report = report or out / "report.html"
    check_writable(report)
    return report


def _kept_in(
    out: Path | None, told: Callable[[ShiftBenchmarkSummary], str]
) -> Callable[[ShiftBenchmarkSummary], str]:
    def keep(summary: ShiftBenchmarkSummary) -> str:
        if out is not None:
            path = write_text(out / "summary.json", summary.model_dump_json(indent=2, by_alias=True))
            complain(f"summary written to {path}")
        return told(summary)

    return keep
