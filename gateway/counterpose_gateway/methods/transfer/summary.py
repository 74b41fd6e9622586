"""Sum up a transfer: the matrix of failure rates, each beside the rate on the labels alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpose_core.bug_hunt.comparison import LEVEL
from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import (
    ShownImage,
    TransferCell,
    TransferConfig,
    TransferInstruction,
    TransferItem,
    TransferSummary,
)
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.p_values import holm
from counterpose_core.statistics.strata import Counts, shared, standardised_rate, stratified_p
from counterpose_core.types import FINAL_RUN_STATES, Cost
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.summaries.accounting import count_reasons

SHOWN_IMAGES = 12

_Answered = Sequence[tuple[TransferItem, TransferInstruction]]


@dataclass(frozen=True)
class _Cell:
    row: str
    column: str
    counts: Counts
    baseline: Counts
    captions: int

    @property
    def p(self) -> float | None:
        """None where the images were chosen by this classifier, or there is nothing to compare."""
        if self.row == self.column or not shared(self.counts, self.baseline):
            return None
        return stratified_p(self.counts, self.baseline)


def summarize(run: Run, items: Iterable[TransferItem]) -> TransferSummary:
    """Sum up the run so far."""
    listed = list(items)
    config = recorded_config(TransferConfig, run)
    told = [(item, item.instruction) for item in listed if item.state == "done"]
    answered = [(item, each) for item, each in told if each is not None]
    results = [item.result for item, _ in answered if item.result is not None]
    cells = _cells(config, answered)
    summary = TransferSummary(
        run_id=run.id,
        config=config,
        request_counts=run.request_counts,
        cells=cells,
        unanswered=dict(sorted(Counter(name for each in results for name in each.unanswered).items())),
        shown=_shown(answered),
        failed_codes=count_reasons(item.code for item in listed if item.state == "failed"),
        cost=sum((each.cost for each in results), Cost()),
        verdict="",
    )
    return summary.model_copy(update={"verdict": verdict(run, summary)})


def _cells(config: TransferConfig, answered: _Answered) -> list[TransferCell]:
    baseline = [item for item, told in answered if told.phase == "baseline"]
    columns = config.request.classifiers
    alone = {column: _counts(baseline, column) for column in columns}
    found: list[_Cell] = []
    for row in config.rows:
        fooling = [(item, told.caption) for item, told in answered if row in told.fools]
        captions = len({caption for _, caption in fooling})
        items = [item for item, _ in fooling]
        found += [_Cell(row, column, _counts(items, column), alone[column], captions) for column in columns]
    p_values = [each.p for each in found]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [
        _cell(each, None if p is None else next(adjusted)) for each, p in zip(found, p_values, strict=True)
    ]


def _counts(items: Iterable[TransferItem], column: str) -> dict[str, tuple[int, int]]:
    failures, images = Counter[str](), Counter[str]()
    for item in items:
        if item.result is not None and column in item.result.failed:
            images[item.label] += 1
            failures[item.label] += item.result.failed[column]
    return {label: (failures[label], n) for label, n in images.items()}


def _cell(cell: _Cell, p_adjusted: float | None) -> TransferCell:
    failures = sum(each[0] for each in cell.counts.values())
    return TransferCell(
        row=cell.row,
        column=cell.column,
        failures=failures,
        rate=proportion(failures, sum(each[1] for each in cell.counts.values())),
        captions=cell.captions,
        baseline=standardised_rate(cell.baseline, cell.counts),
        by_choice=cell.row == cell.column,
        p_adjusted=p_adjusted,
    )


def _shown(answered: _Answered) -> list[ShownImage]:
    """Those that fool most classifiers first."""
    found = [
        ShownImage(
            item=item.id,
            image=item.source_image,
            label=item.label,
            prompt=told.caption,
            fools=told.fools,
            answers={name: pair.answer for name, pair in item.result.predictions.items()},
        )
        for item, told in answered
        if told.phase == "fooling" and item.result is not None
    ]
    found.sort(key=lambda each: -sum(answer != each.label for answer in each.answers.values()))
    return found[:SHOWN_IMAGES]


def verdict(run: Run, summary: TransferSummary) -> str:
    """Say which pair transfers most, or that none is proven to."""
    so_far = "" if run.state in FINAL_RUN_STATES else " so far"
    others = [each for each in summary.cells if not each.by_choice and each.rate.estimate is not None]
    if not others:
        return f"Nothing{so_far} to compare: every answer is of a classifier that chose the images."
    proven = [each for each in others if each.p_adjusted is not None and each.p_adjusted <= LEVEL]
    if not proven:
        return f"No transfer is proven{so_far}: {_said(max(others, key=_rate))}."
    return (
        f"Failures transfer in {len(proven)} of {len(others)} pairs{so_far}: {_said(max(proven, key=_rate))}."
    )


def _rate(cell: TransferCell) -> float:
    return cell.rate.estimate or 0.0


def _said(cell: TransferCell) -> str:
    alone = cell.baseline.estimate
    beside = "" if alone is None else f", {100 * alone:.0f} % of the labels alone (n={cell.baseline.n})"
    return (
        f"{cell.column} fails on {cell.failures} of {cell.rate.n} images that fool {cell.row} "
        f"({100 * _rate(cell):.0f} %){beside}"
    )
