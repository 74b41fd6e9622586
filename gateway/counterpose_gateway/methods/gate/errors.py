"""What candidate and incumbent get wrong, cell by cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from counterpose_core.contract.gates import GateConfig, GateItem, GateResult
from counterpose_core.statistics.bootstrap import Floats, mean_by_source


class Key(NamedTuple):
    """A candidate, a change, and a class; None for the source images themselves, and for all classes."""

    candidate: str
    change: str | None
    label: str | None = None

    @property
    def figure(self) -> str:
        """The name of the cell's figures, from which their draws come."""
        return f"{self.candidate}/{self.change}" + ("" if self.label is None else f"/{self.label}")


class Errors(NamedTuple):
    """Whether each of the two is wrong, 0 or 1: after the change, and on the source image."""

    candidate: float
    incumbent: float
    candidate_before: float
    incumbent_before: float


@dataclass
class ErrorsOfCell:
    """The errors on the pairs of one cell with their units; pairs without all answers are planned only."""

    answered: list[tuple[str, Errors]] = field(default_factory=list)
    planned: int = 0

    def add(self, unit: str, errors: Errors | None) -> None:
        """Add a pair, or a source image."""
        self.planned += 1
        if errors is not None:
            self.answered.append((unit, errors))

    @property
    def left_out(self) -> int:
        """How many pairs have no answer of one of the two."""
        return self.planned - len(self.answered)

    @property
    def candidate(self) -> list[tuple[str, float]]:
        """The candidate's errors, each with its unit."""
        return [(unit, errors.candidate) for unit, errors in self.answered]

    @property
    def incumbent(self) -> list[tuple[str, float]]:
        """The incumbent's errors, each with its unit."""
        return [(unit, errors.incumbent) for unit, errors in self.answered]

    @property
    def differences(self) -> Floats:
        """The candidate's mean error less the incumbent's of each unit (n,)."""
        return _means((unit, each.candidate - each.incumbent) for unit, each in self.answered)

    @property
    def drops(self) -> list[tuple[str, float]]:
        """The candidate's drop from the source image less the incumbent's, each with its unit."""
        return [
            (unit, (each.candidate - each.candidate_before) - (each.incumbent - each.incumbent_before))
            for unit, each in self.answered
        ]


def errors_by_cell(config: GateConfig, items: Iterable[GateItem]) -> dict[Key, ErrorsOfCell]:
    """Return the errors of every candidate under every change and on the source images, also by class."""
    candidates, changes = config.request.classifiers, config.regression_set.changes
    found = defaultdict[Key, ErrorsOfCell](ErrorsOfCell)
    for candidate in candidates:
        for change in (*changes, None):
            found[Key(candidate, change)] = ErrorsOfCell()
    # One source image belongs to several pairs, and counts once.
    sources: dict[tuple[str, str, str], tuple[str, Errors | None]] = {}
    for item in items:
        if (told := item.instruction) is None:
            continue
        for candidate in candidates:
            before, after = _errors(item.result, candidate, config.incumbent)
            for label in (None, item.label):
                found[Key(candidate, told.change, label)].add(told.unit, after)
            at = (candidate, item.source_image, item.label)
            if before is not None or at not in sources:
                sources[at] = (told.unit, before)
    for (candidate, _, label), (unit, before) in sources.items():
        for of_class in (None, label):
            found[Key(candidate, None, of_class)].add(unit, before)
    return dict(found)


def _errors(result: GateResult | None, candidate: str, incumbent: str) -> tuple[Errors | None, Errors | None]:
    """The errors on the source image alone, and on the pair."""
    if result is None:
        return None, None
    both = {candidate, incumbent}
    if not both <= result.original_predictions.keys():
        return None, None
    wrong = {spec: float(result.original_predictions[spec].rank_true > 1) for spec in both}
    before = (wrong[candidate], wrong[incumbent])
    if not both <= result.predictions.keys():
        return Errors(*before, *before), None
    after = {spec: float(result.predictions[spec].rank_true > 1) for spec in both}
    return Errors(*before, *before), Errors(after[candidate], after[incumbent], *before)


def _means(pairs: Iterable[tuple[str, float]]) -> Floats:
    return np.array(list(mean_by_source(pairs).values()), dtype=np.float64)


def unanswered_pairs(results: Iterable[GateResult]) -> Mapping[str, int]:
    """Return the number of pairs that each classifier could not answer."""
    counts: dict[str, int] = {}
    for result in results:
        for spec in result.unanswered:
            counts[spec] = counts.get(spec, 0) + 1
    return dict(sorted(counts.items()))
