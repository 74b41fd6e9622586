"""The answers of one classifier to photographs and to what operations made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    """Answers by operation and level, then by photograph; ``groups`` and ``labels`` are of each photograph.

    ``why`` counts, by operation, why a photograph has no answer to one of its levels.
    """

    classifier: str
    groups: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    pairs: dict[Image, dict[str, PredictionPair]] = field(default_factory=lambda: defaultdict(dict))
    why: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, source: str, label: str, group: str, made: Iterable[TransformedImage]) -> None:
        """Take the answers to one photograph."""
        self.groups[source], self.labels[source] = group, label
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
        control = self.pairs[CONTROL]
        before = np.array([control[source].rank_true == 1 for source in sources], dtype=np.bool_)
        return PairedAnswers(units.astype(np.intp), before, self.right(image, sources))

    def flipped(self, image: Image, most: int, of: Sequence[str] | None = None) -> list[str]:
        """So many photographs, of those named if any are, that are answered rightly no more, surest first."""
        sources, control = self.sources(image[0]) if of is None else of, self.pairs[CONTROL]
        answers = self.paired(image, sources)
        lost = [sources[at] for at in np.flatnonzero(answers.before & ~answers.after).tolist()]
        return sorted(lost, key=lambda source: -control[source].p_true)[:most]
