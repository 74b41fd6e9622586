"""``counterpose shift-benchmark`` and ``counterpose compare-prompts``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from counterpose._cli.contract_options import LABEL_MAP, SEED, STEPS, TASK, Fields, Option, request_options
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import Classifiers, ClassName, InterfaceId
from counterpose._cli.spending import SPENDING
from counterpose._cli.tables import Cell, Table, counts_text, unless_empty
from counterpose._cli.terminal import print_note
from counterpose._files import write_text
from counterpose._run_ids import LAST, is_beginning
from counterpose._sync.client import Client
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary, ShiftSummary
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.errors import InvalidRequest

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
COMPARE_PROMPTS_EXAMPLES = examples(
    "counterpose compare-prompts 3fa8 plate --prompt 'a photo of an empty <class>' --classifier leaning-vit",
    codes=True,
)


COUNT = Option("n", "N", "--per-class")
REAL = Option("real", "N", "--real-per-class")


@request_options(
    ShiftBenchmarkCreate,
    LABEL_MAP,
    TASK,
    Option("shifts", "SHIFT", "--shift", "'in the snow', a name of the catalogue, or a prompt with <class>"),
    Option("classes", "CLASS", "--class"),
    Option("image_sources", "IMAGE_SOURCE", "--image-source"),
    Option("retrieval", "DATASET"),
    COUNT,
    REAL,
    STEPS,
    *SPENDING,
    SEED,
)
def shift_benchmark(
    interface: InterfaceId,
    classifier: Classifiers,
    fields: Fields,
    *,
    out: Out = None,
    output: Output,
    client: Client,
) -> None:
    """Benchmark classifiers on shifts of an interface's classes."""
    _benchmark(client, interface, classifier, fields, output, out, shift_benchmark_text)


@request_options(ShiftBenchmarkCreate, dataclasses.replace(COUNT, default=16), REAL, STEPS, SEED)
def compare_prompts(
    interface: InterfaceId,
    class_name: ClassName,
    prompt: Prompts,
    classifier: Classifiers,
    fields: Fields,
    *,
    out: Out = None,
    output: Output,
    client: Client,
) -> None:
    """Compare prompts of one class, by its token and by its plain name."""
    fields |= {"shifts": prompt, "classes": [class_name], "image_sources": ["token", "class-name"]}
    _benchmark(client, interface, classifier, fields, output, out, prompts_text)


def _benchmark(
    client: Client,
    interface: str,
    classifiers: list[str],
    fields: Fields,
    output: Output,
    out: Path | None,
    render: Callable[[ShiftBenchmarkSummary], str],
) -> None:
    output = dataclasses.replace(output, report=_report_path(output.report, out))
    whole = _interface_id(client, interface)
    serve_and_follow(
        client,
        classifiers,
        lambda specs: client.shift_benchmarks.create(interface=whole, classifiers=specs, **fields),
        output,
        render=_saving_summary(out, render),
    )


def _interface_id(client: Client, run: str) -> str:
    """Return the whole id of an interface, which a request takes."""
    if run == LAST or is_beginning(run):
        return client.runs.get(run, kind="dataset-interface").id
    return run


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


def shift_benchmark_text(summary: ShiftBenchmarkSummary) -> str:
    """Each image source's shifts with state, kept share, impact and slope, then counts, cost and notes."""
    blocks: list[str] = []
    for name, image_source in summary.image_sources.items():
        blocks.append(f"{name}: {len(image_source.common)} classes common to all shifts")
        rows = [(shift, *_shift_cells(found)) for shift, found in image_source.shifts.items()]
        blocks += [str(Table(("shift", "state", "kept", "impact", "slope"), rows)), ""]
    lost = {**summary.dropped, **summary.failed_codes}
    reasons = f" ({'; '.join(f'{reason}: {count}' for reason, count in lost.items())})" if lost else ""
    counts = f"images: {counts_text(summary.counts)}{reasons}"
    failed = map(str, summary.unanswered)
    return "\n".join(
        [*blocks, *failed, counts, f"cost: {summary.cost}", *summary.spending_lines, *summary.notes]
    )


def prompts_text(summary: ShiftBenchmarkSummary) -> str:
    """Accuracy per classifier, image source and prompt, with the drop from the base and from the token."""
    header = ("classifier", "image source", "prompt", "accuracy", "drop from base", "drop from token")
    rows = [
        (row.model, row.image_source, row.prompt, row.accuracy, row.drop, row.beside_token)
        for row in summary.prompts
    ]
    notes = [*map(str, summary.unanswered), f"cost: {summary.cost}", *summary.spending_lines, *summary.notes]
    return "\n".join([*unless_empty(header, rows), "", *notes])


def _shift_cells(shift: ShiftSummary) -> tuple[Cell, ...]:
    effect = shift.effect
    figures = (None, None) if effect is None else (effect.impact, effect.slope.slope)
    return (shift.state, shift.share_kept, *figures)


def _says_something(summary: ShiftBenchmarkSummary) -> bool:
    # A benchmark of a single class has accuracies by prompt.
    judged = any(
        shift.effect is not None
        for image_source in summary.image_sources.values()
        for shift in image_source.shifts.values()
    )
    return judged or any(prompt.accuracy.n for prompt in summary.prompts)


RUNS = RunsOfKind(
    text=shift_benchmark_text,
    judge=judged_by(_says_something),
    command=shift_benchmark,
    submitted=examples(
        "counterpose submit shift-benchmark @last --cluster gpus --workers 8 --classifier timm:resnet50",
        codes=True,
    ),
)
