"""Estimates of a run: accuracy, sensitivity and yield, each source weighing 1, each with its interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import AccuracyRow, EditTypeSummary
from faultline_core.filters import GATE_REASONS
from faultline_core.p_values import sign_flip_p
from faultline_core.statistics import (
    bootstrap_mean,
    bootstrap_ratio,
    bootstrap_unpaired,
    mean_by_source,
)
from faultline_core.types import Estimate
from faultline_gateway.workflows.evidence import Shot
from faultline_gateway.workflows.planning import derive_seed

FILTERS: dict[str, str] = {
    "no-edit": "proposal",
    "label-in-edit": "label",
    "subjective": "subjective",
    "edit-too-similar": "similarity",
    "duplicate-edit": "duplicate",
    **{reason: reason.removeprefix("gate-") for reason in GATE_REASONS},
    "objectionable": "objectionable",
}
"""Reason of a filtered edit → the filter's name in ``yield``, in the order they are applied."""

INTERVENTION_FILTERS: dict[str, str] = {
    "not-applicable": "applicable",
    **{reason: name for reason, name in FILTERS.items() if reason.startswith(("label", "gate", "obj"))},
}
"""The same of an intervention, whose words no other filter judges."""

_CHOSEN = "intervention."

_ACCURACY = (0.0, 1.0)
_CHANGE = (-1.0, 1.0)


class Estimator:
    """Makes each figure from a generator of its own, so that one figure more changes none of the others."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, figure: str) -> np.random.Generator:
        """The figure's own generator."""
        return np.random.default_rng(derive_seed(self._seed, "figure", figure))

    def mean(
        self, figure: str, pairs: Iterable[tuple[str, float]], bounds: tuple[float, float] = _CHANGE
    ) -> Estimate:
        """The mean over sources of the mean within each, from (source, value) pairs."""
        values = list(mean_by_source(pairs).values())
        return bootstrap_mean(values, self.generator(figure), bounds=bounds)

    def p_above_zero(self, figure: str, pairs: Iterable[tuple[str, float]]) -> float | None:
        """One-sided sign-flip p-value of the same mean being above zero; None without sources."""
        values = list(mean_by_source(pairs).values())
        return sign_flip_p(values, self.generator(f"{figure}/p")) if values else None

    def accuracy(self, figure: str, ranks: Sequence[tuple[str, int]]) -> AccuracyRow:
        """acc@1 and acc@5 from (source, rank of the true class) of each picture."""
        return AccuracyRow(
            acc1=self.mean(f"{figure}/acc1", ((source, rank <= 1) for source, rank in ranks), _ACCURACY),
            acc5=self.mean(f"{figure}/acc5", ((source, rank <= 5) for source, rank in ranks), _ACCURACY),
            n_images=len(ranks),
            n_sources=len({source for source, _ in ranks}),
        )

    def sensitivity(self, figure: str, found: Sequence[Shot]) -> EditTypeSummary:
        """Signed and absolute change of p(true class), and the drop of acc@1."""
        changes = [(shot.source, shot.delta_p) for shot in found]
        absolute = [(source, abs(change)) for source, change in changes]
        return EditTypeSummary(
            delta_p=self.mean(f"{figure}/delta_p", changes),
            abs_delta_p=self.mean(f"{figure}/abs_delta_p", absolute, _ACCURACY),
            drop=self.mean(f"{figure}/drop", ((shot.source, shot.drop()) for shot in found)),
            n_images=len(found),
            n_sources=len({shot.source for shot in found}),
        )

    def drop_paper(self, figure: str, found: Sequence[Shot], edits: Sequence[Shot], k: int) -> Estimate:
        """acc@k of the shots' originals less that of the edits, each picture weighing 1 (LANCE, eq. 3)."""
        before = {shot.source: (int(shot.before.rank_true <= k), 1) for shot in found}
        after = _counts((shot.source, shot.after.rank_true <= k) for shot in edits)
        return bootstrap_unpaired(before, after, self.generator(figure))

    def yields(self, items: Iterable[Item], *, unused: Collection[str] = ()) -> dict[str, Estimate]:
        """Share of the edits reaching each filter that pass it, then the share kept, in all and by type.

        LANCE-R and interventions have other filters: their shares stand under names of their own, where
        the run has any.
        """
        decided = [item for item in items if item.state in ("done", "filtered")]
        judged = [item for item in decided if item.kind == "edit"]
        passed = self._passed(judged, FILTERS, unused)
        kept = [(item, item.state == "done") for item in judged]
        types = dict.fromkeys(item.edit_type for item in judged)
        by_type = {
            f"kept.{edit_type}": self._share(
                f"kept/{edit_type}", [(item, keep) for item, keep in kept if item.edit_type == edit_type]
            )
            for edit_type in types
        }
        baseline = self._baseline_yields([item for item in decided if item.kind == "lance-r"])
        chosen = self._chosen_yields([item for item in decided if item.kind == "intervention"], unused)
        return {**passed, "kept": self._share("kept", kept), **by_type, **baseline, **chosen}

    def _passed(
        self, judged: Sequence[Item], filters: Mapping[str, str], unused: Collection[str], prefix: str = ""
    ) -> dict[str, Estimate]:
        """The share of the items reaching each filter, named as in ``filters``, that pass it."""
        used = [reason for reason in filters if reason not in unused]
        order = [*used, *sorted({item.reason for item in judged if item.reason} - set(used))]
        stopped = [(item, order.index(item.reason) if item.reason else len(order)) for item in judged]
        return {
            prefix + filters.get(reason, reason): self._share(
                prefix + reason, [(item, stop > stage) for item, stop in stopped if stop >= stage]
            )
            for stage, reason in enumerate(order)
        }

    def _chosen_yields(self, judged: Sequence[Item], unused: Collection[str]) -> dict[str, Estimate]:
        if not judged:
            return {}
        kept = self._share("kept.intervention", [(item, item.state == "done") for item in judged])
        passed = self._passed(judged, INTERVENTION_FILTERS, unused, _CHOSEN)
        return {**passed, "kept.intervention": kept}

    def _baseline_yields(self, judged: Sequence[Item]) -> dict[str, Estimate]:
        made = [item for item in judged if item.reason != "no-edit"]
        stages = {
            "lance-r.proposal": [(item, item.reason != "no-edit") for item in judged],
            "lance-r.new-word": [(item, item.reason != "gate-new-word") for item in made],
            "kept.lance-r": [(item, item.state == "done") for item in judged],
        }
        return {name: self._share(name, found) for name, found in stages.items()} if judged else {}

    def _share(self, figure: str, decided: Sequence[tuple[Item, bool]]) -> Estimate:
        return self.share(f"yield/{figure}", ((item.source_id, passes) for item, passes in decided))

    def share(self, figure: str, decided: Iterable[tuple[str, bool]]) -> Estimate:
        """The share of pictures of which something is true, from (source, whether it is)."""
        return bootstrap_ratio(_counts(decided), self.generator(figure))


def _counts(decided: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Source → (how many are true, how many there are)."""
    counts: dict[str, tuple[int, int]] = {}
    for source, true in decided:
        before, reached = counts.get(source, (0, 0))
        counts[source] = (before + true, reached + 1)
    return counts
