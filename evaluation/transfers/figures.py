"""The figures: each dataset, the matrix of failure rates, and copies beside others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import numpy as np

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialItem
from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.realism import RealismSummary
from counterpose_core.contract.transfers import TransferItem
from counterpose_core.statistics.bootstrap import bootstrap_mean, bootstrap_ratio, mean_by_source, proportion
from counterpose_core.types import Estimate
from counterpose_gateway.methods.adversarial_dataset.items import RecordedDataset
from counterpose_gateway.steps.failed_samples import NOT_SHOWN
from counterpose_gateway.steps.image_distances import image_distances

from .report import CellReport, Contrast, DatasetReport, SharedRate
from .roster import COLUMNS, COPIES, Relation, architecture_of, relation
from .study import Row, summary_of, transfer_summary_of

Counts = Mapping[str, tuple[int, int]]
"""Failures and images by caption, the unit that is resampled."""

_STREAM = 0x7A5
_FILTERS = (NOT_SHOWN, "near-duplicate", "over-cap")
"""What leaves out an image that fools."""


def counts_of(items: Iterable[TransferItem], row: str, column: str) -> Counts:
    """Count the failures of a column on the images that fool a row's classifier."""
    found: dict[str, tuple[int, int]] = {}
    for item in _fooling(items, row):
        if item.result is not None and column in item.result.failed:
            failures, images = found.get(_caption(item), (0, 0))
            found[_caption(item)] = (failures + item.result.failed[column], images + 1)
    return found


def cells_of(row: Row) -> list[CellReport]:
    """The cells of one row; none where nothing fools its classifier."""
    if row.transfer is None:
        return []
    summary = transfer_summary_of(row.transfer)
    unchosen = {each.classifier: each.rate for each in summary_of(row.unchosen).classifiers}
    found = []
    for cell in summary.cells:
        counts = counts_of(row.transfer_items, cell.row, cell.column)
        found.append(
            CellReport(
                row=cell.row,
                column=cell.column,
                architecture=architecture_of(cell.column),
                relation=relation(cell.row, cell.column),
                failures=cell.failures,
                captions=cell.captions,
                rate=bootstrap_ratio(counts, _generator(row.source, cell.column, 0)),
                unanswered=summary.unanswered.get(cell.column, 0),
                alone=cell.baseline,
                p=cell.p_adjusted,
                unchosen=unchosen[cell.column],
            )
        )
    return found


def dataset_of(row: Row) -> DatasetReport:
    """One dataset, and how far its own failure rate is the effect of choosing."""
    summary, seeds = summary_of(row.dataset), summary_of(row.mistaken)
    fooling = summary.kept + sum(summary.dropped.get(name, 0) for name in _FILTERS)
    made = summary.kept + sum(summary.dropped.values())
    own = summary.classifiers[0]
    chosen = proportion(own.kept, summary.kept)
    rates = (chosen.estimate, own.rate.estimate)
    return DatasetReport(
        source=row.source,
        seeds_that_fool=seeds_that_fool(seeds),
        any_seed=row.any_seed,
        seeds_dropped=summary.seeds.dropped,
        captions=len(summary.captions),
        captions_left_out=summary.left_out,
        made=made,
        kept=summary.kept,
        kept_share=proportion(summary.kept, made),
        left_out=proportion(fooling - summary.kept, fooling),
        dropped=summary.dropped,
        by_choice=chosen,
        unchosen=own.rate,
        curse=None if rates[0] is None or rates[1] is None else rates[0] - rates[1],
        alone=own.baseline,
    )


def seeds_that_fool(summary: AdversarialDatasetSummary) -> Estimate:
    """Of the seeds that were answered, those that a classifier gets wrong."""
    fooling, rightly = summary.seeds.captioned, summary.seeds.dropped.get("answered-rightly", 0)
    return proportion(fooling, fooling + rightly)


def contrasts_of(row: Row) -> list[Contrast]:
    """The source's copy less every other classifier that did not choose the images, image by image."""
    copy = next((each.spec for each in COPIES if each.source == row.source), None)
    if copy is None or row.transfer is None:
        return []
    fooling = _fooling(row.transfer_items, row.source)
    shown = {column for item in fooling if item.result is not None for column in item.result.failed}
    if copy not in shown:
        return []
    found = []
    for other in (column for column in COLUMNS if column in shown - {row.source, copy}):
        pairs = [
            (_caption(item), float(item.result.failed[copy]) - float(item.result.failed[other]))
            for item in fooling
            if item.result is not None and {copy, other} <= set(item.result.failed)
        ]
        means = list(mean_by_source(pairs).values())
        found.append(
            Contrast(
                row=row.source,
                copy_of_source=copy,
                other=other,
                relation=relation(row.source, other),
                difference=bootstrap_mean(means, _generator(row.source, other, 1)),
                images=len(pairs),
            )
        )
    return found


def relations_of(rows: Sequence[Row], cells: Sequence[CellReport]) -> list[SharedRate]:
    """The failure rates of all cells of one relation together."""
    items = {row.source: row.transfer_items for row in rows}
    found = []
    names: tuple[Relation, ...] = get_args(Relation)
    for number, name in enumerate(names):
        of_relation = [cell for cell in cells if cell.relation == name]
        counts: dict[tuple[str, str], tuple[int, int]] = {}
        for cell in of_relation:
            for caption, (failures, images) in counts_of(items[cell.row], cell.row, cell.column).items():
                before = counts.get((cell.row, caption), (0, 0))
                counts[cell.row, caption] = (before[0] + failures, before[1] + images)
        unchosen = [cell.unchosen.estimate for cell in of_relation]
        found.append(
            SharedRate(
                relation=name,
                cells=len(of_relation),
                rate=bootstrap_ratio(counts, np.random.default_rng([_STREAM, 2, number])),
                unchosen=[rate for rate in unchosen if rate is not None],
            )
        )
    return found


def distances_of(rows: Sequence[Row], seed: int) -> RealismSummary | None:
    """Fréchet and kernel distance of each set of images from usual scenes (Wiles et al., table 2)."""
    recorded = {row.source: _recorded(row) for row in rows}
    first = max(recorded.values(), key=lambda each: len(each.of_phase("reference")))
    sets = {f"fools {name}": _features(each.selection.kept) for name, each in recorded.items()}
    fooled = [
        item for row in rows if not row.any_seed
        for item in _recorded(row).of_phase("seed") if item.state == "done"
    ]  # fmt: skip
    sets |= {
        "fools any of them": _features(item for each in recorded.values() for item in each.selection.kept),
        "wild scenes that fool any of them": _features(fooled),
        "images of the labels alone": _features(first.of_phase("baseline")),
    }
    usual = _features(first.of_phase("reference"))
    return image_distances(usual, sets, network=first.config.clip, seed=seed)


def _recorded(row: Row) -> RecordedDataset:
    return RecordedDataset.of(summary_of(row.dataset).config, row.items)


def _features(items: Iterable[AdversarialItem]) -> list[FeatureVector]:
    """The features of different images."""
    results = [item.result for item in items if item.result is not None]
    found = {each.image: each.features for each in results if each.features is not None}
    return list(found.values())


def _fooling(items: Iterable[TransferItem], row: str) -> list[TransferItem]:
    return [
        item for item in items
        if item.state == "done" and item.instruction is not None and item.instruction.phase == "fooling"
        and row in item.instruction.fools
    ]  # fmt: skip


def _caption(item: TransferItem) -> str:
    assert item.instruction is not None
    return f"{item.label}: {item.instruction.caption}"


def _generator(row: str, column: str, kind: int) -> np.random.Generator:
    return np.random.default_rng([_STREAM, kind, COLUMNS.index(row), COLUMNS.index(column)])
