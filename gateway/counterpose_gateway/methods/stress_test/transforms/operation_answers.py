"""The answers of one classifier to photographs and to what operations made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from counterpose_core.contract.recipes import IDENTITY
from counterpose_core.contract.runs import PredictionPair, TransformedImage
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.stress_test.operations import PairedAnswers
from counterpose_core.transforms.table import OPERATIONS

Image = tuple[str, int]
"""An operation and a level."""

CONTROL: Image = (IDENTITY, 0)


@dataclass
class OperationAnswers:
    """Answers by operation and level, then by photograph; ``groups`` and ``labels`` are of each photograph.

    ``why`` counts, by operation, why a photograph has no answer to one of its levels. ``planned`` has the
    levels of the operations that are tested; all else stands beside them.
    """

    classifier: str
    planned: Mapping[str, Sequence[int]]
    groups: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    pairs: dict[Image, dict[str, PredictionPair]] = field(default_factory=lambda: defaultdict(dict))
    why: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(
        self,
        source: str,
        label: str,
        group: str,
        made: Iterable[TransformedImage],
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the answers to one photograph, and why operations were not carried out on it."""
        self.groups[source], self.labels[source] = group, label
        for name, why in left_out.items():
            self.why[name][source] = why
        for each in made:
            pair = each.predictions.get(self.classifier)
            if pair is None:
                self.why[each.operation][source] = each.problem or "the classifier gave no answer"
            else:
                self.pairs[each.operation, each.level][source] = pair

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

    def by_class(self, operation: str) -> dict[str, list[str]]:
        """The same photographs by their class."""
        found: dict[str, list[str]] = defaultdict(list)
        for source in self.sources(operation):
            found[self.labels[source]].append(source)
        return found

    def right(self, image: Image, sources: Sequence[str] | None = None) -> Flags:
        """Which photographs of the operation, or which of some, are answered rightly (n,)."""
        pairs, of = self.pairs[image], self.sources(image[0]) if sources is None else sources
        return np.array([pairs[source].rank_true == 1 for source in of], dtype=np.bool_)

    def paired(self, image: Image, of: Sequence[str] | None = None) -> PairedAnswers:
        """The answers to an operation at a level beside those to the controls of the same photographs.

        ``of`` names some of its photographs; None takes all.
        """
        sources = self.sources(image[0]) if of is None else of
        groups = np.array([self.groups[source] for source in sources], dtype=object)
        _, units = np.unique(groups, return_inverse=True)
        before = self.right(CONTROL, sources)
        return PairedAnswers(units.astype(np.intp), before, self.right(image, sources))

    def placebo(self, image: Image) -> PairedAnswers | None:
        """The answers to the placebo of an operation at a level, over its photographs, if it has one."""
        row = OPERATIONS.get(image[0])
        if row is None or not row.placebo:
            return None
        beside = row.placebo, row.placebo_level(image[1])
        sources = [source for source in self.sources(image[0]) if source in self.pairs[beside]]
        return self.paired(beside, sources) if sources else None

    def flipped(self, image: Image, most: int, of: Sequence[str] | None = None) -> list[str]:
        """So many photographs, of those named if any are, that are answered rightly no more, surest first."""
        sources, control = self.sources(image[0]) if of is None else of, self.pairs[CONTROL]
        answers = self.paired(image, sources)
        lost = [sources[at] for at in np.flatnonzero(answers.before & ~answers.after).tolist()]
        return sorted(lost, key=lambda source: -control[source].p_true)[:most]
