"""Images that operations were not carried out on yet: on any other, they make the same image again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import TransformSummary
from counterpose_gateway.records.source_table import SourceTable

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


def fresh_images(table: SourceTable, runs: Sequence[Run], ledger: Ledger, label: str = "") -> SourceTable:
    """Return the images of a dataset that none of the runs has used, nor another of their groups.

    Of one class where a ``label`` is given.
    """
    used: set[str] = set()
    for run in runs:
        config = StressTestConfig.model_validate(run.resolved_config)
        for item in ledger.items.recorded(run.id):
            used |= {item.item_group, item.source_image, config.groups.get(item.item_group, item.item_group)}
        used.update(config.excluded if config.operation_proof is None else ())
    return without(table, used, label)


def without(table: SourceTable, used: Set[str], label: str = "") -> SourceTable:
    """Return the images, of a class or of all, of which neither id nor image nor group is used."""
    fresh = [
        at
        for at in range(len(table))
        if label in ("", table.label(at))
        and not used & {table.id(at), table.image(at), table.group(at) or table.id(at)}
    ]
    return table.take(np.array(fresh, dtype=np.intp))


def pairs_left(told: TransformSummary, fresh: SourceTable) -> dict[int, int]:
    """Return how many fresh images a proof of each finding could take, by its number.

    None of an operation on all classes that its run decided: it is not proven again.
    """
    of_class = np.bincount(fresh.own_labels(), minlength=len(fresh.label_names)).tolist()
    by_class = dict(zip(fresh.label_names, of_class, strict=True))
    left = {each.number: len(fresh) for each in told.figures if each.state == "cannot-tell"}
    classes = [] if told.classes is None else told.classes.findings
    return left | {each.number: by_class.get(each.object_class, 0) for each in classes}
