"""Estimates of a run with intervals: accuracy, sensitivity and yield, each source with weight 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from counterpose_core.contract.stress_test_figures import HitRates
from counterpose_core.contract.stress_tests import EditTypeSummary
from counterpose_core.statistics.bootstrap import bootstrap_unpaired
from counterpose_core.statistics.coded import Flags, Ints, counts_by, in_order
from counterpose_core.stress_test.filters import GATE_REASONS
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.screen.judges import JUDGED_AS
from counterpose_gateway.methods.stress_test.screen.preservation import PRESERVATION
from counterpose_gateway.methods.stress_test.screen.regions import NO_REGION
from counterpose_gateway.methods.stress_test.summary.evidence import Shots
from counterpose_gateway.steps.estimator import Estimator
from counterpose_gateway.summaries.columns import NONE, hit

FILTERS: dict[str, str] = {
    "no-edit": "proposal",
    "label-in-edit": "label",
    "policy": "policy",
    "subjective": "subjective",
    "edit-too-similar": "similarity",
    "duplicate-edit": "duplicate",
    NO_REGION: "region",
    **{reason: reason.removeprefix("gate-") for reason in GATE_REASONS},
    "objectionable": "objectionable",
    **JUDGED_AS,
    PRESERVATION: "preservation",
}
"""Reason of a filtered edit → the filter's name in ``yield``, in the order they are applied."""

INTERVENTION_FILTERS: dict[str, str] = {
    "not-applicable": "applicable",
    **{
        reason: name
        for reason, name in FILTERS.items()
        if reason.startswith(("label", "gate", "obj", NO_REGION))
    },
}
"""The same for an intervention, whose words no other filter judges."""

_CHOSEN = "intervention."

_ACCURACY = (0.0, 1.0)
_FIGURES = ("acc1", "acc5")
"""What seeds call the two headline figures: names of the first task, which no other changes."""


class LanceEstimator(Estimator):
    """Estimates the figures of LANCE: accuracies, sensitivities and the yield of each filter."""

    def hit_rates(self, figure: str, seen: Shots, hits: Ints) -> HitRates:
        """The two headline figures from the coded hits of each image."""
        means = [
            self.mean_of(f"{figure}/{name}", seen.unit, hit(hits, place).astype(np.float64), _ACCURACY)
            for place, name in enumerate(_FIGURES)
        ]
        return HitRates(
            hit_rates=(means[0], means[1]),
            n_images=len(hits),
            n_sources=len(np.unique(seen.unit)),
        )

    def sensitivity(self, figure: str, shots: Shots | Sequence[Shots]) -> EditTypeSummary:
        """Change of the score, signed and absolute, and drop of the first figure, of some models."""
        parts = [shots] if isinstance(shots, Shots) else shots
        units = np.concatenate([part.unit for part in parts])
        changes = np.concatenate([part.delta_p for part in parts])
        return EditTypeSummary(
            delta_p=self.mean_of(f"{figure}/delta_p", units, changes),
            abs_delta_p=self.mean_of(f"{figure}/abs_delta_p", units, np.abs(changes), _ACCURACY),
            drop=self.mean_of(f"{figure}/drop", units, np.concatenate([part.drop() for part in parts])),
            n_images=len(changes),
            n_sources=len(np.unique(np.concatenate([part.source for part in parts]))),
        )

    def drop_paper(self, figure: str, shots: Shots, edits: Shots, which: int) -> Estimate:
        """A figure of the shots' originals minus the edits', each image weighing 1 (LANCE, eq. 3)."""
        originals = shots.last_of_source
        before = _counts(originals.unit, hit(originals.hits_before, which))
        after = _counts(edits.unit, hit(edits.hits_after, which))
        return bootstrap_unpaired(before, after, self.generator(figure))

    def yields(self, columns: ItemColumns, *, unused: Collection[str] = ()) -> dict[str, Estimate]:
        """Share of the edits reaching each filter that pass it, then the share kept, overall and by type.

        LANCE-R and interventions have other filters: their shares have names of their own, if the run
        has any. Only the screen counts.
        """
        decided = columns.screened & columns.decided
        judged = decided & columns.of("kind", "edit")
        passed = self._passed(columns, judged, FILTERS, unused)
        by_type = {
            f"kept.{name}": self._kept(f"kept/{name}", columns, judged & columns.of("edit_type", said))
            for said, name in _types(columns, judged)
        }
        baseline = self._baseline_yields(columns, decided & columns.of("kind", "lance-r"))
        chosen = self._chosen_yields(columns, decided & columns.of("kind", "intervention"), unused)
        return {**passed, "kept": self._kept("kept", columns, judged), **by_type, **baseline, **chosen}

    def _passed(
        self,
        columns: ItemColumns,
        judged: Flags,
        filters: Mapping[str, str],
        unused: Collection[str],
        prefix: str = "",
    ) -> dict[str, Estimate]:
        """The share of the items reaching each filter, named as in ``filters``, that pass it."""
        reasons = columns.reason[judged]
        named = [columns.names["reason"].names[code] for code in np.unique(reasons).tolist() if code != NONE]
        used = [reason for reason in filters if reason not in unused]
        # A reason may be empty text in an old run, which counts as none.
        order = [*used, *sorted({name for name in named if name} - set(used))]
        stops = np.full(len(columns.names["reason"].names) + 1, len(order))
        for name in filter(None, named):
            stops[columns.names["reason"].find(name)] = order.index(name)
        stopped = stops[reasons]
        units = columns.unit[judged]
        return {
            prefix + filters.get(reason, reason): self.share_of(
                f"yield/{prefix}{reason}", units[stopped >= stage], stopped[stopped >= stage] > stage
            )
            for stage, reason in enumerate(order)
        }

    def _chosen_yields(
        self, columns: ItemColumns, judged: Flags, unused: Collection[str]
    ) -> dict[str, Estimate]:
        if not judged.any():
            return {}
        kept = self._kept("kept.intervention", columns, judged)
        passed = self._passed(columns, judged, INTERVENTION_FILTERS, unused, _CHOSEN)
        return {**passed, "kept.intervention": kept}

    def _baseline_yields(self, columns: ItemColumns, judged: Flags) -> dict[str, Estimate]:
        if not judged.any():
            return {}
        proposed, new = ~columns.of("reason", "no-edit"), ~columns.of("reason", "gate-new-word")
        stages = {
            "lance-r.proposal": (judged, proposed),
            "lance-r.new-word": (judged & proposed, new),
            "kept.lance-r": (judged, columns.done),
        }
        return {
            name: self.share_of(f"yield/{name}", columns.unit[among], passes[among])
            for name, (among, passes) in stages.items()
        }

    def _kept(self, figure: str, columns: ItemColumns, judged: Flags) -> Estimate:
        return self.share_of(f"yield/{figure}", columns.unit[judged], columns.done[judged])


def _types(columns: ItemColumns, judged: Flags) -> list[tuple[str | None, str | None]]:
    """The edit types of judged items in the order in which they occur, each as it is found and named."""
    codes, _ = in_order(columns.edit_type[judged])
    names = [None if code == NONE else columns.names["edit_type"].names[code] for code in codes.tolist()]
    return [(name, name) for name in names]


def _counts(units: Ints, true: Flags) -> dict[int, tuple[int, int]]:
    """Unit → (number of true values, number of values)."""
    codes, counts = counts_by(units, true)
    pairs = (tuple(map(int, pair)) for pair in counts.tolist())
    return dict(zip(codes.tolist(), pairs, strict=True))
