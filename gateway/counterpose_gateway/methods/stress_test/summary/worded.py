"""What a tested change says word for word: which of its wordings hurt, and the finding narrowed to these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterpose_core.contract.confirmation import SuspectedChange
from counterpose_core.contract.findings import WordingCount
from counterpose_core.stress_test.confirmation import PairColumns
from counterpose_core.stress_test.screening import WordingKey
from counterpose_core.stress_test.wordings import WordingTest, named, parted_p, scope_of, wording_test
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import FreshPair, pair_columns
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, flips


@dataclass(frozen=True)
class WordedPairs:
    """The pairs of a tested change by wording; ``figure`` names the random numbers of its tests."""

    classifier: str
    pairs: Sequence[FreshPair]
    redrawn: bool
    figure: str
    estimator: LanceEstimator

    @cached_property
    def by_wording(self) -> Mapping[WordingKey, Sequence[FreshPair]]:
        """The pairs of each wording, that with the most pairs first."""
        found: dict[WordingKey, list[FreshPair]] = {}
        for pair in self.pairs:
            found.setdefault(pair.edit.wording_key, []).append(pair)
        return dict(sorted(found.items(), key=lambda each: (-len(each[1]), _said(each[1]))))

    @cached_property
    def tests(self) -> Mapping[WordingKey, WordingTest]:
        """Each wording tested by itself."""
        return {
            wording: wording_test(self._columns(pairs), self._generator("/".join(_said(pairs))))
            for wording, pairs in self.by_wording.items()
        }

    @cached_property
    def named(self) -> list[WordingKey]:
        """The wordings that a finding of the change names: all that agree, or those that hurt."""
        keys = [pair.edit.wording_key for pair in self.pairs]
        return named(self.tests, parted_p(self._columns(self.pairs), keys, self._generator("parted")))

    @property
    def is_narrower(self) -> bool:
        """Whether some wordings part from those that hurt."""
        return len(self.named) < len(self.tests)

    def of(self, draft: Draft) -> Draft:
        """Return the finding with its wordings; a proven one names those that hurt, where they part."""
        narrows = draft.state == "breaks" and self.is_narrower
        shown = self.named if narrows else list(self.tests)
        alone = len(self.tests) == 1
        removed, added = draft.words
        return replace(
            draft,
            words=_said(self.by_wording[shown[0]]) if narrows and len(shown) == 1 else draft.words,
            wordings=[
                self._count(pairs, self.tests[wording], named=wording in shown)
                for wording, pairs in self.by_wording.items()
            ],
            # The test of the change is the test of its only wording.
            wording_scope=scope_of({wording: alone or self.tests[wording].breaks for wording in shown}),
            tested=SuspectedChange(edit_type=draft.edit_type, removed=removed, added=added)
            if narrows
            else None,
        )

    def _columns(self, pairs: Sequence[FreshPair]) -> PairColumns:
        return pair_columns(pairs, self.classifier, redrawn=self.redrawn)

    def _generator(self, of: str) -> np.random.Generator:
        return self.estimator.generator(f"{self.figure}/wording/{of}")

    def _count(self, pairs: Sequence[FreshPair], test: WordingTest, *, named: bool) -> WordingCount:
        removed, added = _said(pairs)
        return WordingCount(
            removed=removed,
            added=added,
            n=len(pairs),
            flipped=sum(flips(pair.placebo, pair.edit, self.classifier) for pair in pairs),
            loss=test.loss,
            p=test.p if test.is_tested else None,
            named=named,
        )


def _said(pairs: Sequence[FreshPair]) -> tuple[str, str]:
    """The words that most of the pairs use."""
    counted = Counter(pair.edit.wording for pair in pairs)
    return min(counted, key=lambda words: (-counted[words], words))
