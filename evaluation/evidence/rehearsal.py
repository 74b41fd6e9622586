"""The page about the rehearsal: every row of results/rehearsal.json, predictions beside measurements."""

from __future__ import annotations

from pathlib import Path

from evaluation.evidence.markdown import NONE, page, table
from evaluation.rehearsal.report import OUT, Rehearsal, Row, read_report

GIBIBYTE = 2**30
NEAR = 0.25
"""A prediction of `check` should be at most so far from what was measured."""
MEMORY = (
    "models",
    "on",
    "computes in",
    "stored",
    "weights",
    "predicted",
    "own",
    "predicted / own",
    "resident",
)
TIME = (
    "models",
    "threads",
    "write",
    "start",
    "read by calls",
    "from disk",
    "request",
    "steps",
    "evaluations",
    "each",
)

HOW = (
    "- `make rehearse` (`ONLY=editor,captioner` for some services, `STEPS=2` diffusion steps, `KEEP=1`",
    "  leaves the weights); `make rehearse DEVICE=cuda` is the same on a GPU",
    "",
    "Each network is built from its published configuration on the meta device, filled with random numbers",
    "from a seed, and written in the published layout. One service at a time is started as",
    "`counterpose-services up` does and gets the requests of `check --load`: n = 1 each. `start` contains",
    "Ray's own start and reading all files twice, once for their digest. A caption or an edited caption has",
    "at most 8 tokens; an edit has one value of the sweep. Stable Diffusion 1.4 and 2 invert by null-text",
    "with one inner step, XL directly.",
    "",
    "`weights` are counted on the meta device in the precision that computes. `predicted` is what",
    "`counterpose-services check` says of weights and allowance. `own` is the most memory of the replica",
    "that is not pages of files (on a GPU, its memory); `resident` holds these pages, too, which the system",
    "takes back when it needs them. `each` is the request divided by the evaluations of the UNet, the",
    "autoencoder included. Other programs ran on the machine at the same time: times show that it works,",
    "not how fast.",
    "",
    "The prediction's allowance for a gradient was chosen by Stable Diffusion 1.4, that for decoding by",
    "counting; the other rows did not enter it.",
    "",
    "On a CPU without units for it, float16 has no fast kernels: a 3x3 convolution of 320 channels ran at",
    "0.3 GFLOP/s, in float32 at 180, in bfloat16 at 36. What fits computes in float32, the rest in bfloat16.",
    "",
)


def rehearsal_page(file: Path = OUT) -> str:
    """Write the page."""
    report = read_report(file)
    machine = report.machine
    device = "" if machine.device is None else f", {machine.device}"
    body = [
        "## Memory of one replica", "", *table(MEMORY, map(_memory, report.rows)), "",
        "## Time", "", *table(TIME, map(_time, report.rows)), "", *_problems(report),
    ]  # fmt: skip
    how = [
        *HOW,
        f"- Machine: {machine.processor}, {machine.cores} cores,"
        f" {report.memory_bytes / GIBIBYTE:.0f} GiB{device};"
        f" Python {machine.python}, torch {machine.torch}, diffusers {machine.diffusers}",
    ]
    return page("Published architectures at full size", finding(report), body, how)


def finding(report: Rehearsal) -> str:
    """Say how many cases were served, and how far predictions were from what was measured."""
    served = [row for row in report.rows if row.problem is None]
    ratios = [ratio for row in served if (ratio := _ratio(row)) is not None]
    near = sum(abs(ratio - 1.0) <= NEAR for ratio in ratios)
    between = f", {min(ratios):.2f} to {max(ratios):.2f} times it" if ratios else ""
    return (
        f"{len(served)} of {len(report.rows)} services start on architectures of published size with random"
        f" weights and answer a request at full resolution; the memory that `check` predicts is within 25 %"
        f" of what was measured in {near} of {len(ratios)}{between}."
    )


def _ratio(row: Row) -> float | None:
    predicted, needed = row.memory.predicted, row.memory.needed
    return None if predicted is None or needed is None else predicted / needed


def _memory(row: Row) -> tuple[str, ...]:
    memory, ratio = row.memory, _ratio(row)
    return (
        row.models,
        row.device,
        row.dtype,
        _gib(row.stored_bytes),
        _gib(memory.computed),
        _gib(memory.predicted),
        _gib(memory.needed),
        NONE if ratio is None else f"{ratio:.2f}",
        _gib(memory.resident),
    )


def _time(row: Row) -> tuple[str, ...]:
    each = row.evaluation_seconds
    return (
        row.models,
        str(row.threads),
        _seconds(row.write_seconds),
        _seconds(row.start_seconds),
        _gib(row.called_bytes),
        _gib(row.disk_bytes),
        _seconds(row.request_seconds),
        NONE if row.steps is None else str(row.steps),
        NONE if row.evaluations is None else str(row.evaluations),
        _seconds(each),
    )


def _problems(report: Rehearsal) -> list[str]:
    told = [row for row in report.rows if row.problem is not None]
    lines = [f"- {row.models} on {row.device}: {row.problem}." for row in told]
    return ["Not served:", "", *lines, ""] if lines else []


def _gib(size: int | None) -> str:
    return NONE if size is None else f"{size / GIBIBYTE:.2f} GiB"


def _seconds(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
