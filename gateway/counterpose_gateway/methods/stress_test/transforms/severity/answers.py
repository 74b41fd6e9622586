"""What a run with severity answered: bisected or whole, screened or kept for the tests of what is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from counterpose_core.contract.runs import ItemResult, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.errors import InternalError
from counterpose_core.stress_test.severity.curves import LevelAnswers, Monotonicity, is_decided, monotonicity
from counterpose_core.stress_test.severity.draw import Share, claimed_level
from counterpose_core.transforms.table import Operation
from counterpose_core.types import ItemState
from counterpose_gateway.methods.stress_test.transforms.given import GivenChange
from counterpose_gateway.methods.stress_test.transforms.operation_answers import CONTROL, OperationAnswers
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import share

Key = tuple[str, str]
"""A classifier and an operation."""

_ENDED: tuple[ItemState, ...] = ("done", "failed")


@dataclass
class SeverityAnswers:
    """The answers of all classifiers: ``first`` those of the first stage, ``every`` those of later ones, too.

    ``open`` counts the images of later stages that are not answered yet, or were cancelled.
    """

    config: StressTestConfig
    first: dict[str, OperationAnswers] = field(init=False)
    every: dict[str, OperationAnswers] = field(init=False)
    open: int = 0
    shares: dict[str, Share] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.first, self.every = (
            {
                name: OperationAnswers(name, plan.operations, plan.scaled, plan.is_adaptive, plan.given)
                for name in self.config.request.classifiers
            }
            for _ in range(2)
        )

    @property
    def plan(self) -> TransformPlan:
        """The operations of the run; raises InternalError without severity."""
        plan = self.config.transforms
        if plan is None or plan.severity is None:
            raise InternalError("the run does not ask for severity")
        return plan

    def row(self, operation: str) -> Operation | GivenChange:
        """What is told of an operation, or of a change that was given."""
        return next(iter(self.first.values())).row(operation)

    def add(self, source: str, label: str, stage: int, state: ItemState, result: ItemResult | None) -> None:
        """Take one item."""
        self.open += stage > 1 and state not in _ENDED
        if result is None:
            return
        self.shares.setdefault(source, share(self.config, source))
        group = self.config.groups.get(source, source)
        for answers in (self.first, self.every) if stage == 1 else (self.every,):
            for each in answers.values():
                each.labels[source] = label
                each.add(source, group, result.transformed, result.left_out)

    @cached_property
    def keys(self) -> list[Key]:
        """Each classifier with each operation that it answered anything of."""
        return [
            (name, operation)
            for name, answers in self.first.items()
            for operation in self.plan.operations
            if any(operation == own for own, _ in answers.pairs)
        ]

    @cached_property
    def orders(self) -> dict[Key, Monotonicity]:
        """The test of the order of levels, on images with every level."""
        return {key: monotonicity(self._read(self.first, key, in_full=False)[0]) for key in self.keys}

    def in_full(self, key: Key) -> bool:
        """Whether every image has every level, or is to get it."""
        return not self.plan.is_adaptive or self.orders[key].is_rejected

    @cached_property
    def claims(self) -> dict[Key, int]:
        """The level that the screened half chooses of each operation.

        It depends on the first stage alone, but for operations in full, of which every level is asked anyway.
        """
        severity = self.plan.severity
        loss = 0.0 if severity is None else severity.loss
        found: dict[Key, int] = {}
        for key in self.keys:
            answers, sources = self.levels(key)
            screened = np.array([self.shares[each] != "tested" for each in sources], dtype=np.bool_)
            losses = answers.losses(screened)
            by_level = dict(zip(answers.levels, losses.T, strict=True))
            found[key] = claimed_level(answers.levels, by_level, loss, len(self.keys), self.plan.least_loss)
        return found

    def chosen(self) -> dict[str, OperationAnswers]:
        """All answers of each classifier, once what the later stage asked for has been chosen by them."""
        if self.plan.is_adaptive:
            # Kept, whatever is left out of the answers afterwards.
            _ = self.claims
        return self.every

    def levels(self, key: Key) -> tuple[LevelAnswers, list[str]]:
        """The answers to an operation's levels, and the images that they are of."""
        return self._read(self.every, key, in_full=self.in_full(key))

    def _read(
        self, by_classifier: Mapping[str, OperationAnswers], key: Key, *, in_full: bool
    ) -> tuple[LevelAnswers, list[str]]:
        name, operation = key
        answers, levels = by_classifier[name], self.plan.operations[operation]
        control = answers.pairs.get(CONTROL, {})
        images = {level: answers.pairs.get((operation, level), {}) for level in levels}
        left_out = answers.why.get(operation, {})
        sources, rows, full = list[str](), list[dict[int, bool]](), list[bool]()
        for source in control:
            right = {level: own[source].right for level, own in images.items() if source in own}
            whole = in_full or self.shares[source] == "full"
            before = control[source].right
            if source not in left_out and is_decided(levels, before, right, whole):
                sources.append(source)
                rows.append(right)
                full.append(whole)
        groups = np.array([answers.groups[source] for source in sources], dtype=object)
        _, units = np.unique(groups, return_inverse=True)
        before_all = np.array([control[source].right for source in sources], dtype=np.bool_)
        whole_all = np.array(full, dtype=np.bool_)
        return LevelAnswers.of(levels, units.astype(np.intp), before_all, rows, whole_all), sources

    def tests(self, run: Run) -> dict[str, OperationAnswers]:
        """The answers that findings are tested on: all of a grid, else those of the half that chose nothing.

        None while some of that half are still to come: those that bisection asked are answered otherwise than
        the others.
        """
        if not self.plan.is_adaptive:
            return self.every
        is_planned = run.stage > 1 or run.state in ("completed", "completed_with_failures")
        if is_planned and not self.open:
            return self.tested()
        return {name: OperationAnswers(name, {}, self.plan.scaled) for name in self.first}

    def tested(self) -> dict[str, OperationAnswers]:
        """The answers that claims are tested on: of each operation one level, and what stands beside."""
        return {name: self._tested(name, answers) for name, answers in self.every.items()}

    def _tested(self, name: str, answers: OperationAnswers) -> OperationAnswers:
        kept = [source for source in answers.groups if self.shares[source] == "tested"]
        claims = {operation: [level] for (own, operation), level in self.claims.items() if own == name}
        found = OperationAnswers(name, claims, self.plan.scaled)
        found.groups = {source: answers.groups[source] for source in kept}
        found.labels = {source: answers.labels[source] for source in kept}
        for operation, why in answers.why.items():
            found.why[operation] = {source: why[source] for source in kept if source in why}
        for (operation, level), pairs in answers.pairs.items():
            if operation not in self.plan.operations or level in claims.get(operation, ()):
                found.pairs[operation, level] = {each: pairs[each] for each in kept if each in pairs}
        return found

    def wanted(self, source: str) -> dict[str, dict[str, list[int]]]:
        """The levels of each operation that a later stage asks of each classifier about an image."""
        found = {
            name: {
                operation: levels
                for operation in self.plan.operations
                if (levels := self._wanted((name, operation), source))
            }
            for name in self.first
        }
        return {name: levels for name, levels in found.items() if levels}

    def _wanted(self, key: Key, source: str) -> list[int]:
        name, operation = key
        answers = self.first[name]
        is_answered = source in answers.pairs.get(CONTROL, ()) and source not in answers.why.get(
            operation, ()
        )
        if key not in self.claims or not is_answered:
            return []
        claimed = [self.claims[key]] if self.shares[source] == "tested" else []
        levels = self.plan.operations[operation] if self.in_full(key) else claimed
        return [level for level in levels if source not in answers.pairs.get((operation, level), ())]
