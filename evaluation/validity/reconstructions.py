"""The effect of reconstruction alone on predictions and on what the oracle sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.statistics.bootstrap import bootstrap_mean, mean_by_source
from counterpose_core.types import Estimate

from .judging import Judgement
from .measures import clustered_share
from .report import Reconstruction

Outcome = tuple[str, bool, bool]
"""A source, and whether its class was ranked first before and after."""


def outcomes(items: Iterable[Item], classifier: str) -> list[Outcome]:
    """One classifier's answers to each reconstruction and its original."""
    found = []
    for item in items:
        if item.kind == "reconstruction" and item.state == "done" and item.result is not None:
            before = item.result.original_predictions[classifier].right
            after = item.result.predictions[classifier].right
            found.append((item.item_group, before, after))
    return found


def reconstruction(
    items: Sequence[Item],
    classifiers: Sequence[str],
    judgements: Mapping[str, Judgement],
    generator: np.random.Generator,
) -> Reconstruction:
    """How often a reconstruction turns right into wrong or wrong into right; net: change of accuracy."""
    by_classifier = {name: outcomes(items, name) for name in classifiers}
    together = [one for found in by_classifier.values() for one in found]
    shown = [one for one in judgements.values() if one.edit_type == "reconstruction"]
    net = mean_by_source((source, float(after) - float(before)) for source, before, after in together)
    return Reconstruction(
        changed=_changed(together, generator),
        net=bootstrap_mean(list(net.values()), generator),
        changed_by_classifier={name: _changed(found, generator) for name, found in by_classifier.items()},
        fidelity=clustered_share(((one.source, one.fidelity) for one in shown), generator),
    )


def _changed(found: Sequence[Outcome], generator: np.random.Generator) -> Estimate:
    return clustered_share(((source, before != after) for source, before, after in found), generator)
