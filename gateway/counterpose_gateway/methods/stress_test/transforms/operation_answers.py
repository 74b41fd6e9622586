"""The answers of one classifier to photographs and to what operations made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from counterpose_core.contract.recipes import IDENTITY
from counterpose_core.contract.runs import TransformedImage
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.transforms import GivenPairs, OperationState
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.stress_test.operations import PairedAnswers
from counterpose_core.transforms.table import OPERATIONS, Operation
from counterpose_gateway.methods.stress_test.transforms.given import ORIGINAL, GivenChange

Image = tuple[str, int]
"""An operation and a level."""

CONTROL: Image = (IDENTITY, 0)


@dataclass
class OperationAnswers:
    """Answers by operation and level, then by photograph; ``groups`` has the group of each photograph.

    ``why`` counts, by operation, why a photograph has no answer to one of its levels. ``planned`` has the
    levels of the operations that are tested; all else stands beside them. ``scaled`` and ``given`` are those
    of the plan. ``adaptive``: whether a classifier is not asked about every image, so that an answer may not
    be due.
    """

    classifier: str
    planned: Mapping[str, Sequence[int]]
    scaled: bool = False
    adaptive: bool = False
    given: GivenPairs | None = None
    groups: dict[str, str] = field(default_factory=dict)
    pairs: dict[Image, dict[str, Scored]] = field(default_factory=lambda: defaultdict(dict))
    why: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    labels: dict[str, str] = field(default_factory=dict)
    """The class of each photograph."""

    def add(
        self,
        source: str,
        group: str,
        made: Iterable[TransformedImage],
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the answers to one photograph, and why operations were not carried out on it."""
        self.groups[source] = group
        for name, why in left_out.items():
            self.why[name][source] = why
        for each in made:
            pair = each.predictions.get(self.classifier)
            if pair is not None:
                self.pairs[each.operation, each.level][source] = pair
            elif each.problem is not None or not self.adaptive:
                self.why[each.operation][source] = each.problem or "the classifier gave no answer"

    def forget_masks(self, sources: Iterable[str], why: str) -> None:
        """Leave photographs out of all operations that need a mask."""
        out = set(sources)
        for (name, _), pairs in self.pairs.items():
            row = OPERATIONS.get(name)
            if row is not None and row.needs_mask:
                for source in out & pairs.keys():
                    del pairs[source]
                    self.why[name][source] = why

    def row(self, operation: str) -> Operation | GivenChange:
        """What is told of an operation, or of a change that was given."""
        if self.given is None:
            return OPERATIONS[operation]
        return GivenChange(operation, len(self.planned[operation]))

    @property
    def shown(self) -> OperationState:
        """The state of a loss that is shown: without controls, the making of pairs may be what costs it."""
        return "breaks" if self.given is None or self.given.controls else "suspected"

    @property
    def operations(self) -> list[str]:
        """The operations that were carried out on any photograph, in the order of the run."""
        return [name for name in self.planned if any(name == own for own, _ in self.pairs)]

    def levels(self, operation: str) -> list[int]:
        """The levels of an operation, the easiest first."""
        planned = self.planned.get(operation)
        found = sorted(level for name, level in self.pairs if name == operation)
        return [level for level in found if planned is None or level in planned]

    def sources(self, operation: str) -> list[str]:
        """The photographs with an answer to the control and to every level of an operation."""
        images = [self.pairs[operation, level] for level in self.levels(operation)]
        return [source for source in self.pairs[CONTROL] if all(source in each for each in images)]

    def right(self, image: Image) -> Flags:
        """Which photographs of the operation are answered rightly (n,)."""
        return self._right(image, self.sources(image[0]))

    def _right(self, image: Image, sources: Sequence[str]) -> Flags:
        pairs = self.pairs[image]
        return np.array([pairs[source].right for source in sources], dtype=np.bool_)

    def paired(self, image: Image) -> PairedAnswers:
        """The answers to an operation at a level beside those to the controls of the same photographs."""
        return self._paired(image, self.sources(image[0]))

    def _paired(self, image: Image, sources: Sequence[str]) -> PairedAnswers:
        groups = np.array([self.groups[source] for source in sources], dtype=object)
        _, units = np.unique(groups, return_inverse=True)
        before = self._right(CONTROL, sources)
        return PairedAnswers(units.astype(np.intp), before, self._right(image, sources))

    @property
    def making(self) -> PairedAnswers:
        """The answers to the sources of given pairs beside those to their controls."""
        to = self.paired((ORIGINAL, 0))
        return PairedAnswers(to.groups, to.after, to.before)

    def placebo(self, image: Image) -> PairedAnswers | None:
        """The answers to the placebo of an operation at a level, over its photographs, if it has one."""
        row = None if self.given is not None else OPERATIONS.get(image[0])
        if row is None or not row.placebo:
            return None
        beside = row.placebo, row.placebo_level(image[1])
        sources = [source for source in self.sources(image[0]) if source in self.pairs[beside]]
        return self._paired(beside, sources) if sources else None

    def flipped(self, image: Image, most: int) -> list[str]:
        """So many photographs that are no longer answered rightly, the surest before first."""
        answers = self.paired(image)
        sources, control = self.sources(image[0]), self.pairs[CONTROL]
        lost = [sources[at] for at in np.flatnonzero(answers.before & ~answers.after).tolist()]
        return sorted(lost, key=lambda source: -control[source].score)[:most]

    def by_class(self, operation: str) -> dict[str, OperationAnswers]:
        """The answers to an operation by the class of the photographs."""
        sources: dict[str, list[str]] = defaultdict(list)
        for source in self.sources(operation):
            sources[self.labels[source]].append(source)
        return {label: self._of(operation, each) for label, each in sources.items()}

    def _of(self, operation: str, sources: list[str]) -> OperationAnswers:
        """The answers to an operation, and to the controls, of some of the photographs."""
        pairs: dict[Image, dict[str, Scored]] = defaultdict(dict)
        for image in (CONTROL, *((operation, level) for level in self.levels(operation))):
            pairs[image] = {source: self.pairs[image][source] for source in sources}
        return replace(self, groups={source: self.groups[source] for source in sources}, pairs=pairs)
