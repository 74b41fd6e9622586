"""Results as text: aligned tables on a terminal, tab-separated lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from counterpose_core.commands import SHORT_ID, next_step
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary, FailureRate
from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary, TokenSummary
from counterpose_core.contract.gates import GateSummary
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary, ShiftSummary
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ThresholdInForce,
)
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transfers import TransferCell, TransferSummary
from counterpose_core.types import Estimate

MISSING = "-"
SHOWN_INSIGHTS = 10

# A name may hold what would break a tab-separated line.
_BREAKS = str.maketrans("\t\r\n", "   ")

Cell = str | Estimate | None


@dataclass(frozen=True)
class Table:
    """Rows under a header; an estimate carries its interval and n, None is a missing figure.

    The columns of ``whole`` never wrap on a terminal, so that ids can be copied.
    """

    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    whole: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.aligned() if sys.stdout.isatty() else self.tab_separated()

    def tab_separated(self) -> str:
        """One line per row, cells separated by tabs, however wide they are."""
        lines = [self.header, *(tuple(map(_one_line, row)) for row in self.rows)]
        return "\n".join("\t".join(line) for line in lines)

    def aligned(self, width: int | None = None) -> str:
        """Columns that fit the terminal, or ``width`` characters: long cells wrap, nothing is cut."""
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in self.header:
            table.add_column(name, overflow="fold", no_wrap=name in self.whole)
        for row in self.rows:
            table.add_row(*map(_wrapped, row))
        console = Console(file=sys.stdout, width=width)
        with console.capture() as captured:
            console.print(table)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


@singledispatch
def summary_text(summary: Any) -> str:
    """A summary of any kind, as its command prints it."""
    raise TypeError(f"no text is written for {type(summary).__name__}")


@summary_text.register
def stress_test_text(summary: StressTestSummary) -> str:
    """What `stress_test_figures` says, and how to open the report."""
    return f"{stress_test_figures(summary)}\nreport: counterpose open {summary.run_id[:SHORT_ID]}"


def stress_test_figures(summary: StressTestSummary) -> str:
    """The verdicts, findings, each classifier's accuracies, counts, cost and the first insights."""
    rows = [
        (name, model.original.acc1, model.reconstruction.acc1, model.counterfactual.acc1)
        for name, model in summary.models.items()
    ]
    accuracies = Table(("classifier", "original", summary.control_name, "counterfactual"), rows)
    shown = [str(accuracies), ""] if summary.has_accuracy else []
    counts = [f"items: {_counts(summary.counts)}", f"cost: {summary.cost}"]
    # An insight is what a run says that has no findings.
    insights = [] if summary.findings else [each.sentence for each in summary.insights[:SHOWN_INSIGHTS]]
    warnings = [line for told in summary.warnings for line in (told, "")]
    warnings += [*map(str, summary.baseline), ""] if summary.baseline else []
    return "\n".join([*warnings, *_verdicts(summary), "", *_findings(summary), *shown, *counts, *insights])


def _verdicts(summary: StressTestSummary) -> list[str]:
    """The verdict's lines, with its state before the sentence on each classifier."""
    states = {each.sentence: each.state.replace("-", " ") for each in summary.verdicts}
    return [f"{states[line]}: {line}" if line in states else line for line in summary.verdict.splitlines()]


def _findings(summary: StressTestSummary) -> list[str]:
    found: list[str] = []
    for each in summary.findings[:SHOWN_INSIGHTS]:
        found.append(f"finding {each.number} ({each.standing}): {each.sentence}")
        step = next_step(summary, each)
        found += [f"  {step.title[:1].lower()}{step.title[1:]}: {step.command}"] if step else []
    return [*found, *([""] if found else []), *summary.operation_lines]


@summary_text.register
def interface_text(summary: DatasetInterfaceSummary) -> str:
    """Each learned class with its state, then the classes that are missing, and the cost.

    Similarities are CLIP's cosines, from -1 to 1.
    """
    header = ("class", "state", "images", "steps", "loss", "token", "class name", "real images")
    rows = [(name, *_token_cells(token)) for name, token in summary.tokens.items()]
    missing = [f"missing {name}: {reason}" for name, reason in summary.missing.items()]
    return "\n".join([*_unless_empty(header, rows), *missing, "", f"cost: {summary.cost}"])


@summary_text.register
def shift_benchmark_text(summary: ShiftBenchmarkSummary) -> str:
    """Each image source's shifts with state, kept share, impact and slope, then counts, cost and notes."""
    blocks: list[str] = []
    for name, image_source in summary.image_sources.items():
        blocks.append(f"{name}: {len(image_source.common)} classes common to all shifts")
        rows = [(shift, *_shift_cells(found)) for shift, found in image_source.shifts.items()]
        blocks += [str(Table(("shift", "state", "kept", "impact", "slope"), rows)), ""]
    lost = {**summary.dropped, **summary.failed_codes}
    reasons = f" ({'; '.join(f'{reason}: {count}' for reason, count in lost.items())})" if lost else ""
    counts = f"images: {_counts(summary.counts)}{reasons}"
    failed = map(str, summary.unanswered)
    return "\n".join([*blocks, *failed, counts, f"cost: {summary.cost}", *summary.notes])


@summary_text.register
def bug_hunt_text(summary: BugHuntSummary) -> str:
    """The verdict, the bugs on held-out images, each label's baseline, the descriptions, and the cost."""
    columns = ("state", "classifier", "bug", "held-out rate", "on your images", "discovery rate", "taken for")
    bugs = [
        (
            bug.state, bug.classifier, bug.description, bug.failure_rate,
            None if bug.at_least is None else f"at least {bug.at_least:.2f}", bug.discovery.rate,
            bug.taken_for,
        )
        for bug in summary.bugs
    ]  # fmt: skip
    explained = [
        (bug.description, bug.mentions, bug.contribution) for bug in summary.bugs if bug.contribution
    ]
    baselines = [
        (each.label, each.classifier, each.failure.rate, _left_out(each.failure))
        for each in summary.baselines
    ]
    edited = [
        (
            each.label, each.classifier,
            f"{each.captions} and {each.lacking} lacking" if each.lacking else str(each.captions),
            f"{each.failure.failures} of {each.failure.rate.n}",
        )
        for each in summary.edited
    ]  # fmt: skip
    tried = [
        (each.prompt, each.source, each.classifier, each.discovery.rate, each.state)
        for each in summary.hypotheses
    ]
    return "\n".join(
        [
            summary.verdict,
            "",
            *_unless_empty(columns, bugs),
            *_unless_empty(("bug", "in captions of the label", "part of all its images"), explained),
            *_unless_empty(("label", "classifier", "baseline rate", "left out"), baselines),
            *_unless_empty(("label", "classifier", "edited captions", "failures on their images"), edited),
            *_unless_empty(("description", "from", "classifier", "discovery rate", "outcome"), tried),
            *(each.sentence for each in summary.mixtures),
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"images: {summary.images}; cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


@summary_text.register
def adversarial_dataset_text(summary: AdversarialDatasetSummary) -> str:
    """The verdict, each classifier's rates, what each filter dropped, the captions, and the cost."""
    rates = [(each.classifier, each.rate, each.baseline, str(each.kept)) for each in summary.classifiers]
    captions = [
        (each.prompt, each.label, each.fooling, str(each.made), str(each.kept)) for each in summary.captions
    ]
    lost = {**summary.seeds.dropped, **summary.left_out}
    seeds = "".join(f"; {count} {reason}" for reason, count in lost.items())
    dropped = ", ".join(f"{count} {reason}" for reason, count in summary.dropped.items())
    return "\n".join(
        [
            summary.verdict,
            "",
            *_unless_empty(("classifier", "captions", "labels alone", "kept images that fool it"), rates),
            *_unless_empty(("caption", "label", "fooling", "images", "kept"), captions),
            f"kept: {summary.kept}; dropped: {dropped or 'none'}",
            f"seeds: {summary.seeds.looked_at} looked at, {summary.seeds.captioned} captioned{seeds}",
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"dataset: {summary.digest}; images: {summary.images}; cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


@summary_text.register
def transfer_text(summary: TransferSummary) -> str:
    """The verdict, the matrix, each cell beside the labels alone, and the cost."""
    header = ("images that fool", "shown to", "failure rate", "labels alone", "p (Holm)")
    rows = [(each.row, each.column, each.rate, each.baseline, _holm(each)) for each in summary.cells]
    unread = [f"{name} could not read {count} images" for name, count in summary.unanswered.items()]
    return "\n".join(
        [
            summary.verdict,
            "",
            *_unless_empty(header, rows),
            *unread,
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


@summary_text.register
def gate_text(summary: GateSummary) -> str:
    """The verdict, each candidate under each change, and the cost."""
    header = ("candidate", "change", "state", "regression", "incumbent errs", "p (Holm)", "left out")
    rows = [
        (
            each.classifier, each.name, each.state, each.regression, each.incumbent,
            None if each.p_adjusted is None else f"{each.p_adjusted:.3g}",
            f"{each.left_out} of {each.pairs}",
        )
        for each in summary.cells
    ]  # fmt: skip
    unread = [f"{name} could not answer {count} pairs" for name, count in summary.unanswered.items()]
    return "\n".join(
        [
            summary.verdict,
            "",
            *_unless_empty(header, rows),
            *unread,
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"baseline: {summary.config.regression_set}",
            f"cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


def _holm(cell: TransferCell) -> str | None:
    if cell.by_choice:
        return "chosen by it"
    return None if cell.p_adjusted is None else f"{cell.p_adjusted:.3g}"


def _left_out(rate: FailureRate) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in rate.dropped.items())


def prompts_text(summary: ShiftBenchmarkSummary) -> str:
    """Accuracy per classifier, image source and prompt, with the drop from the base and from the token."""
    header = ("classifier", "image source", "prompt", "accuracy", "drop from base", "drop from token")
    rows = [
        (row.model, row.image_source, row.prompt, row.accuracy, row.drop, row.beside_token)
        for row in summary.prompts
    ]
    told = [*map(str, summary.unanswered), f"cost: {summary.cost}", *summary.notes]
    return "\n".join([*_unless_empty(header, rows), "", *told])


def runs_text(runs: Iterable[Run]) -> str:
    """One run per row: id, kind, state, ended items of all, start (UTC), dataset and name, if any has one."""
    listed = list(runs)
    is_named = any(run.name for run in listed)
    rows = [
        (
            *(run.id, run.kind, run.state, _progress(run), f"{run.created_at:%Y-%m-%d %H:%M}", run.dataset),
            *([run.name or ""] if is_named else []),
        )
        for run in listed
    ]
    header = ("run", "kind", "state", "items", "created (UTC)", "dataset", *(["name"] if is_named else []))
    return str(Table(header, rows, whole=frozenset({"run"})))


def run_text(run: Run) -> str:
    """A run's id, kind, state and dataset, then its times and why it failed."""
    about = f" of {run.dataset}" if run.dataset else ""
    lines = [
        *([] if run.name is None else [run.name]),
        f"run {run.id}: {run.kind}{about}, {run.state}, {_progress(run)} items",
        f"created {run.created_at:%Y-%m-%d %H:%M} UTC"
        + ("" if run.ended_at is None else f", ended {run.ended_at:%Y-%m-%d %H:%M} UTC"),
    ]
    if run.parent is not None:
        lines.append(f"continues run {run.parent}")
    if run.problem is not None:
        lines.append(f"{run.problem.code}: {run.problem.detail}")
    return "\n".join(lines)


def inspections_text(inspections: Inspections, paths: Mapping[tuple[float, str], Path]) -> str:
    """One inspected image per row, with its file in ``paths`` (by percentile and item) or its reference.

    Similarities are CLIP's cosines, from -1 to 1. "threshold" is the similarity at the percentile, which
    becomes the threshold if this percentile is the lowest whose images all show the shift.
    """
    header = ("percentile", "threshold", "similarity", "item", "class", "image")
    rows = [
        (
            f"{row.percentile:g}",
            f"{row.similarity:.3f}",
            f"{inspected.similarity:.3f}",
            inspected.item,
            inspected.class_name,
            str(paths.get((row.percentile, inspected.item), inspected.image)),
        )
        for row in inspections.inspections
        for inspected in row.images
    ]
    return str(Table(header, rows, whole=frozenset({"item"})))


def thresholds_text(thresholds: ShiftThresholds) -> str:
    """The threshold in force per shift, then every decision, oldest first."""
    rows = [
        (name, _threshold(applied), applied.author or applied.set_by or MISSING)
        for name, applied in thresholds.in_force.items()
    ]
    decisions = [f"decision {decision.id}: {decision_text(decision)}" for decision in thresholds.decisions]
    table = str(Table(("shift", "threshold", "set by"), rows))
    return "\n".join([table, *([""] if decisions else []), *decisions])


def decision_text(decision: ShiftThresholdDecision) -> str:
    """One decision on a threshold, in one line."""
    threshold = decision.threshold
    passes = "no image passes" if threshold is None else f"images pass from {threshold:.3f} up"
    percentile = "" if decision.percentile is None else f", percentile {decision.percentile:g}"
    failing = ", ".join(f"{percentile:g}" for percentile in decision.failing_above)
    lacking = f"; at least one image lacks it at {failing}" if failing else ""
    signed = f"({decision.author}, {decision.decided_at:%Y-%m-%d %H:%M} UTC)"
    return f"{decision.shift}: {passes}{percentile}{lacking} {signed}"


def _threshold(applied: ThresholdInForce) -> str:
    if applied.nothing_passes:
        return "no image passes"
    return "not applied" if applied.threshold is None else f"{applied.threshold:.3f}"


def _token_cells(token: TokenSummary) -> tuple[Cell, ...]:
    loss = f"{token.losses[0]:.3f} to {token.losses[-1]:.3f}" if token.losses else None
    similarities = (token.object_similarity, token.name_similarity, token.real_similarity)
    return (token.state, str(token.n_images), str(token.steps), loss, *similarities)


def _shift_cells(shift: ShiftSummary) -> tuple[Cell, ...]:
    effect = shift.effect
    figures = (None, None) if effect is None else (effect.impact, effect.slope.slope)
    return (shift.state, shift.share_kept, *figures)


def _progress(run: Run) -> str:
    counts = run.request_counts
    return f"{counts.total - counts.pending}/{counts.total}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _unless_empty(header: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> list[str]:
    return [str(Table(header, rows))] if rows else []


def _one_line(cell: Cell) -> str:
    return MISSING if cell is None else str(cell).translate(_BREAKS)


def _wrapped(cell: Cell) -> Text:
    if isinstance(cell, Estimate) and cell.estimate is not None:
        # The interval under its estimate: three of them side by side fit 80 columns.
        return Text(f"{cell.estimate:.3f} (n={cell.n})\n[{cell.low:.3f}, {cell.high:.3f}]")
    return Text(_one_line(cell))
