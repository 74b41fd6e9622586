"""Estimates of a run with intervals: accuracy, sensitivity and yield, each source with weight 1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import AccuracyRow, EditTypeSummary
from faultline_core.statistics.bootstrap import (
    bootstrap_unpaired,
)
from faultline_core.stress_test.filters import GATE_REASONS
from faultline_core.types import Estimate
from faultline_gateway.methods.stress_test.summary.evidence import Shot
from faultline_gateway.runs.estimator import Estimator, count_by_source

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
"""The same for an intervention, whose words no other filter judges."""

_CHOSEN = "intervention."

_ACCURACY = (0.0, 1.0)


class LanceEstimator(Estimator):
    """Estimates the figures of LANCE: accuracies, sensitivities and the yield of each filter.

    ``groups`` names the group of each source that is not independent, such as a frame of a video.
    """

    def __init__(self, seed: int, groups: Mapping[str, str] | None = None) -> None:
        super().__init__(seed)
        self._groups = groups or {}

    def unit(self, item: Item) -> str:
        """The unit of an item in every estimate: the group of its source, or the source alone."""
        return self._groups.get(item.item_group, item.item_group)

    def accuracy(self, figure: str, ranks: Sequence[tuple[str, int]]) -> AccuracyRow:
        """acc@1 and acc@5 from (source, rank of the true class) of each image."""
        return AccuracyRow(
            acc1=self.mean(f"{figure}/acc1", ((source, rank <= 1) for source, rank in ranks), _ACCURACY),
            acc5=self.mean(f"{figure}/acc5", ((source, rank <= 5) for source, rank in ranks), _ACCURACY),
            n_images=len(ranks),
            n_sources=len({source for source, _ in ranks}),
        )

    def sensitivity(self, figure: str, shots: Sequence[Shot]) -> EditTypeSummary:
        """Signed and absolute change of p(true class), and the drop of acc@1."""
        changes = [(shot.unit, shot.delta_p) for shot in shots]
        absolute = [(source, abs(change)) for source, change in changes]
        return EditTypeSummary(
            delta_p=self.mean(f"{figure}/delta_p", changes),
            abs_delta_p=self.mean(f"{figure}/abs_delta_p", absolute, _ACCURACY),
            drop=self.mean(f"{figure}/drop", ((shot.unit, shot.drop()) for shot in shots)),
            n_images=len(shots),
            n_sources=len({shot.source for shot in shots}),
        )

    def drop_paper(self, figure: str, shots: Sequence[Shot], edits: Sequence[Shot], k: int) -> Estimate:
        """acc@k of the shots' originals minus that of the edits, each image with weight 1 (LANCE, eq. 3)."""
        originals = {shot.source: shot for shot in shots}.values()
        before = count_by_source((shot.unit, shot.before.rank_true <= k) for shot in originals)
        after = count_by_source((shot.unit, shot.after.rank_true <= k) for shot in edits)
        return bootstrap_unpaired(before, after, self.generator(figure))

    def yields(self, items: Iterable[Item], *, unused: Collection[str] = ()) -> dict[str, Estimate]:
        """Share of the edits reaching each filter that pass it, then the share kept, overall and by type.

        LANCE-R and interventions have other filters: their shares have names of their own, if the run
        has any.
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
        replaced = [item for item in judged if item.reason != "no-edit"]
        stages = {
            "lance-r.proposal": [(item, item.reason != "no-edit") for item in judged],
            "lance-r.new-word": [(item, item.reason != "gate-new-word") for item in replaced],
            "kept.lance-r": [(item, item.state == "done") for item in judged],
        }
        return {name: self._share(name, decided) for name, decided in stages.items()} if judged else {}

    def _share(self, figure: str, decided: Sequence[tuple[Item, bool]]) -> Estimate:
        return self.share(f"yield/{figure}", ((self.unit(item), passes) for item, passes in decided))
