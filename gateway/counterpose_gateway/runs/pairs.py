"""Pairs of a source image and its counterfactual that an ended run made, for a gate to classify again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from counterpose_core.contract.runs import Run
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.types import RunKind
from counterpose_gateway.runs.context import PairedRuns, RecordedRuns


@runtime_checkable
class PairedMethod(Protocol):
    """A method whose runs make counterfactuals of source images.

    def pairs(self, run: Run, context: RecordedRuns) -> Iterable[FrozenPair]:
        return (pair_of(item) for item in context.ledger.items_of(run.id, Item) if item.state == "done")
    """

    def pairs(self, run: Run, context: RecordedRuns) -> Iterable[FrozenPair]:
        """Return the pairs that the run's filters kept."""
        ...


def paired_methods(methods: Mapping[RunKind, Any]) -> dict[RunKind, PairedRuns]:
    """Return how the pairs of a run are read, by its kind."""
    return {kind: method.pairs for kind, method in methods.items() if isinstance(method, PairedMethod)}
