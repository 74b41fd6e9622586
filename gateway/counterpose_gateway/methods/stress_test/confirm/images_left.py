"""What a proof could still be made of: the images of the dataset as it stands, or draws of those at hand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterpose_core.commands import is_provable
from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import UnknownDataset
from counterpose_core.statistics.coded import Flags
from counterpose_core.stress_test.confirmation import LEAST_REDRAWN
from counterpose_core.stress_test.forecast import least_images
from counterpose_core.stress_test.proof import join
from counterpose_core.types import FINAL_RUN_STATES, ItemKind
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.confirm.proof_stages import (
    LeftImages,
    SourceImage,
    applies,
    draws_of,
    left_images,
)
from counterpose_gateway.records.source_table import TableSource
from counterpose_gateway.runs.recorded import recorded_config

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

NO_PAIR: Sequence[ItemKind] = ("caption", "transforms")
"""Kinds of items that use up no image for a pair of an edit and its control."""


def sources_of(proof: Proof, dataset: str, config: StressTestConfig, ledger: Ledger) -> list[Source]:
    """Return the images of the finding's class, without those that its run leaves out.

    Raises:
        UnknownDataset: there is no such dataset.
    """
    out = set(config.excluded)
    label = proof.finding.object_class
    return [each for each in ledger.datasets.sources(dataset) if each.label == label and each.id not in out]


def left_of(
    proof: Proof, sources: Sequence[Source], *, seed: int, runs: Sequence[Run], ledger: Ledger
) -> LeftImages:
    """Return the images that none of the runs with pairs of the finding made a pair of.

    Args:
        proof: the finding.
        sources: the images of its class, with their groups.
        seed: draws their order.
        runs: the finding's run and its children.
        ledger: has the items of the runs.
    """
    tried: dict[str, SourceImage] = {}
    captions: dict[str, str] = {}
    for run in runs:
        config = recorded_config(StressTestConfig, run)
        for item in ledger.items.recorded(run.id):
            source = item.item_group
            if item.kind not in NO_PAIR:
                # A child may know the groups of its images otherwise than the run of the finding.
                unit = config.groups.get(source, source)
                tried[f"{run.id}/{source}"] = SourceImage(source, item.source_image, unit)
            caption = (item.result or {}).get("caption") if item.state == "done" else None
            if caption and item.label == proof.finding.object_class:
                captions[source] = caption
    return left_images(sources, proof, seed=seed, tried=tried.values(), captions=captions)


def pairs_left(run: Run, findings: Iterable[Finding], columns: ItemColumns, ledger: Ledger) -> dict[int, int]:
    """Return how many pairs a proof of each open finding could make, at most, by the finding's number.

    They are of images of the dataset, as it stands, of which the run made no pair; where none is left, draws
    of images at hand. Nothing is known before the run has ended, or if its dataset was deleted.
    """
    provable = [each for each in findings if each.number and is_provable(each)]
    if not provable or run.state not in FINAL_RUN_STATES:
        return {}
    labels = {each.object_class for each in provable}
    config = recorded_config(StressTestConfig, run)
    try:
        units, spent = _units(labels, run, columns, config, ledger)
    except UnknownDataset:
        return {}
    captions = _captions(labels, run, columns, columns.of("kind", "caption"), ledger)
    left = {each.number: _fitting(each, units, captions) for each in provable}
    without = [each for each in provable if not left[each.number]]
    if without and config.redraw is not None:
        labels = {each.object_class for each in without}
        captions = _captions(labels, run, columns, ~columns.of("kind", "transforms"), ledger)
        left |= {each.number: _draws(_fitting(each, spent, captions, sure=True)) for each in without}
    return left


def least_pairs_of(findings: Sequence[Finding], numbers: Container[int]) -> dict[int, int]:
    """Return the pairs without which no proof of a finding with one of these numbers can decide it.

    Only where none was tested: what the pairs of a test are worth is told by the finding's own page.
    """
    untested = [each.number for each in findings if each.number in numbers and each.confirmed is None]
    return dict.fromkeys(untested, least_images(join([], family=len(findings)))) if untested else {}


def _units(
    labels: set[str], run: Run, columns: ItemColumns, config: StressTestConfig, ledger: Ledger
) -> tuple[list[Sequence[TableSource]], list[Sequence[TableSource]]]:
    """The images of these classes in groups: the groups without a pair, and those that have one."""
    table = ledger.datasets.table(run.dataset)
    wanted = [code for code, name in enumerate(table.label_names) if name in labels]
    rows = table.take(np.flatnonzero(np.isin(table.own_labels(), wanted)))
    paired = ~np.logical_or.reduce([columns.of("kind", kind) for kind in NO_PAIR])
    used = {
        columns.name(column, code)
        for column in ("source", "unit")
        for code in np.unique(getattr(columns, column)[paired]).tolist()
    }
    out = set(config.excluded)
    units: dict[tuple[str, str], list[TableSource]] = {}
    for row in rows:
        units.setdefault((row.label, config.groups.get(row.id) or row.group or row.id), []).append(row)
    left: list[Sequence[TableSource]] = []
    spent: list[Sequence[TableSource]] = []
    for (_, unit), members in units.items():
        names = {unit, *(row.id for row in members)}
        if not names & out:
            (spent if names & used else left).append(members)
    return left, spent


def _captions(
    labels: set[str], run: Run, columns: ItemColumns, among: Flags, ledger: Ledger
) -> Mapping[str, str]:
    """The captions of images of these classes, by source, as one of the items at these places has them."""
    codes = [code for code, name in enumerate(columns.names["label"].names) if name in labels]
    at = np.flatnonzero(among & columns.done & np.isin(columns.label, codes))
    _, first = np.unique(columns.source[at], return_index=True)
    items = ledger.items.named(run.id, Item, [columns.ids[each] for each in at[first].tolist()])
    return {item.item_group: item.result.caption for item in items if item.result is not None}


def _fitting(
    finding: Finding,
    units: Iterable[Sequence[TableSource]],
    captions: Mapping[str, str],
    *,
    sure: bool = False,
) -> int:
    """How many of the groups have an image that the change applies to, or, if not ``sure``, no caption."""
    wordings = [each for each in finding.wordings if each.named]
    asked: Sequence[Wording] = wordings or [Wording(removed=finding.removed, added=finding.added)]

    def texts(rows: Sequence[TableSource]) -> Iterator[bool]:
        for row in rows:
            caption = row.caption or captions.get(row.id)
            yield not sure if caption is None else applies(asked, caption, row.label)

    return sum(any(texts(rows)) for rows in units if rows[0].label == finding.object_class)


def _draws(images: int) -> int:
    """How many pairs can be drawn of so many images that have one and that the change applies to."""
    return draws_of(images) if images >= LEAST_REDRAWN else 0
