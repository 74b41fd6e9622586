"""The answers of one classifier to photographs and to what operations made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from counterpose_core.contract.recipes import IDENTITY, PLACEBO
from counterpose_core.contract.runs import PredictionPair, TransformedImage
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.stress_test.operations import PairedAnswers

Image = tuple[str, int]
"""An operation and a level."""

CONTROL: Image = (IDENTITY, 0)


@dataclass
class OperationAnswers:
    """Answers by operation and level, then by photograph; ``groups`` has the group of each photograph.

    ``why`` counts, by operation, why a photograph has no answer to one of its levels.
    """

    classifier: str
    groups: dict[str, str] = field(default_factory=dict)
    pairs: dict[Image, dict[str, PredictionPair]] = field(default_factory=lambda: defaultdict(dict))
    why: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    labels: dict[str, str] = field(default_factory=dict)
    """The class of each photograph."""

    def add(self, source: str, group: str, made: Iterable[TransformedImage]) -> None:
        """Take the answers to one photograph."""
        self.groups[source] = group
        for each in made:
            pair = each.predictions.get(self.classifier)
            if pair is None:
                self.why[each.operation][source] = each.problem or "the classifier gave no answer"
            else:
                self.pairs[each.operation, each.level][source] = pair

    @property
    def operations(self) -> list[str]:
        """The operations that were carried out on any photograph, in the order of the run."""
        return list(dict.fromkeys(name for name, _ in self.pairs if name not in (IDENTITY, PLACEBO)))

    def levels(self, operation: str) -> list[int]:
        """The levels of an operation, the easiest first."""
        return sorted(level for name, level in self.pairs if name == operation)

    def sources(self, operation: str) -> list[str]:
        """The photographs with an answer to the control and to every level of an operation."""
        images = [self.pairs[operation, level] for level in self.levels(operation)]
        return [source for source in self.pairs[CONTROL] if all(source in each for each in images)]

    def right(self, image: Image) -> Flags:
        """Which photographs of the operation are answered rightly (n,)."""
        pairs = self.pairs[image]
        return np.array([pairs[source].rank_true == 1 for source in self.sources(image[0])], dtype=np.bool_)

    def paired(self, image: Image) -> PairedAnswers:
        """The answers to an operation at a level beside those to the controls of the same photographs."""
        sources = self.sources(image[0])
        groups = np.array([self.groups[source] for source in sources], dtype=object)
        _, units = np.unique(groups, return_inverse=True)
        control = self.pairs[CONTROL]
        before = np.array([control[source].rank_true == 1 for source in sources], dtype=np.bool_)
        return PairedAnswers(units.astype(np.intp), before, self.right(image))

    def flipped(self, image: Image, most: int) -> list[str]:
        """So many photographs that are no longer answered rightly, the surest before first."""
        answers = self.paired(image)
        sources, control = self.sources(image[0]), self.pairs[CONTROL]
        lost = [sources[at] for at in np.flatnonzero(answers.before & ~answers.after).tolist()]
        return sorted(lost, key=lambda source: -control[source].p_true)[:most]

    def by_class(self, operation: str) -> dict[str, OperationAnswers]:
        """The answers to an operation by the class of the photographs."""
        sources: dict[str, list[str]] = defaultdict(list)
        for source in self.sources(operation):
            sources[self.labels[source]].append(source)
        return {label: self._of(operation, each) for label, each in sources.items()}

    def _of(self, operation: str, sources: list[str]) -> OperationAnswers:
        """The answers to an operation, and to the controls, of some of the photographs."""
        pairs: dict[Image, dict[str, PredictionPair]] = defaultdict(dict)
        for image in (CONTROL, *((operation, level) for level in self.levels(operation))):
            pairs[image] = {source: self.pairs[image][source] for source in sources}
        return replace(self, groups={source: self.groups[source] for source in sources}, pairs=pairs)
