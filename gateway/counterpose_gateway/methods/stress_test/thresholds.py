"""A stress test judged again by other thresholds, from the scores that it recorded: nothing is made anew.

An item whose outcome would take an image or an answer that does not exist is left out of every figure and
counted. One case is not looked for: an edit that would take its next proposal might take the one that another
slot of the same image and edit type has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from counterpose_core.contract.runs import Item, ItemResult, Run
from counterpose_core.contract.stress_test_thresholds import JudgedAgain, Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.stress_test.filters import Choice, Scores, choose, gate, too_similar
from counterpose_gateway.methods.stress_test.screen.gate import CRITERIA
from counterpose_gateway.methods.stress_test.screen.judges import JUDGED_AS, rule_again, voted, with_clip
from counterpose_gateway.methods.stress_test.screen.preservation import PRESERVATION
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.objectionable import OBJECTIONABLE

LeftOut = Literal["not-made", "not-classified", "not-scored"]
"""Why an item cannot be judged: the edit or its image was never made, no classifier was asked about it, or
the scores that it takes were not recorded."""

_WORDS_JUDGED = frozenset(("label-in-edit", "policy", "subjective", "edit-too-similar", "duplicate-edit"))
"""Reasons of a slot none of whose proposals was made into an image."""

_GATED = frozenset(CRITERIA) - {"lance-r"}
"""Kinds of items whose gate has thresholds."""


class JudgingAgain:
    """Judges a run's items by other thresholds, one by one, and counts what comes of it.

    judging = JudgingAgain(config, Thresholds(direction=0.3))
    kept = [item for item in judging.items(items) if item.state == "done"]
    """

    def __init__(self, config: StressTestConfig, thresholds: Thresholds) -> None:
        self._config = config
        self.gate = thresholds.of_gate(config.gate)
        self._text = thresholds.of_text(config.text)
        self._keep, self._without = thresholds.keep, thresholds.without
        self.rule = rule_again(config.request, thresholds)
        self._dropped = 0
        self._left_out: Counter[str] = Counter()
        self._units: dict[str, int] = {}
        self._judged: list[tuple[int, bool]] = []

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield each item with its outcome by these thresholds; without those that cannot be judged."""
        for item in items:
            if item.kind not in _GATED or item.state not in ("done", "filtered"):
                yield item
                continue
            found = self._judge(item)
            unit = self._units.setdefault(self._unit(item.item_group), len(self._units))
            self._judged.append((unit, isinstance(found, str)))
            if isinstance(found, str):
                self._left_out[found] += 1
            else:
                self._dropped += item.state == "done" and found.state == "filtered"
                yield found

    def told(self) -> JudgedAgain:
        """What came of the items so far."""
        judged = np.array(self._judged, dtype=np.intp).reshape(-1, 2)
        estimator = LanceEstimator(self._config.request.seed)
        return JudgedAgain(
            gate=self.gate,
            text=self._text,
            own_gate=self._config.gate,
            own_text=self._config.text,
            keep=self._keep,
            without=self._without,
            rule=None if self.rule == self._config.request.rule else str(self.rule),
            dropped=self._dropped,
            left_out=dict(sorted(self._left_out.items())),
            share_left_out=estimator.share_of("left-out", judged[:, 0], judged[:, 1] == 1),
        )

    def _unit(self, source: str) -> str:
        grouping = self._config.grouping
        return source if grouping is None else grouping.groups.get(source, source)

    def _judge(self, item: Item) -> Item | LeftOut:
        words = self._judge_words(item) if item.kind == "edit" and self._text != self._config.text else None
        same = self.gate == self._config.gate and self.rule == self._config.request.rule
        if words is not None or item.result is None or same:
            return words or item
        found = self._judge_image(item, item.result)
        if found is None or isinstance(found, str):
            return item if found is None else found
        if item.result.judgements:
            return self._vote(item, item.result, found)
        if found.failed is not None:
            return item.model_copy(update={"state": "filtered", "reason": found.failed})
        if item.state == "done" or item.reason in (OBJECTIONABLE, PRESERVATION):
            return item
        return "not-classified"

    def _vote(self, item: Item, result: ItemResult, choice: Choice) -> Item | LeftOut:
        """Have the judges vote again about the same image."""
        again = voted(self.rule, with_clip(result, choice.failed))
        if not again.result.judgements.keys() >= set(self.rule.judges):
            # An earlier filter dropped it.
            return item
        if again.reason is not None:
            dropped = {"state": "filtered", "reason": again.reason, "detail": again.detail}
            return item.model_copy(update={**dropped, "result": again.result})
        if item.state == "done" or item.reason not in JUDGED_AS:
            return item.model_copy(update={"result": again.result})
        return "not-classified"

    def _judge_words(self, item: Item) -> LeftOut | None:
        """Why the words of a slot cannot be judged; None where the same proposal fills it, or none does."""
        if item.result is None:
            # What failed here by looser thresholds fails by stricter ones.
            return "not-made" if item.reason in _WORDS_JUDGED and self._is_looser() else None
        if item.result.text is None:
            return "not-scored"
        earlier, own = item.result.text.passed_over, item.result.text
        fails = [
            too_similar(
                each.class_similarity,
                each.word_similarity,
                self._text.class_similarity,
                self._text.word_similarity,
            )
            for each in (*earlier, own)
        ]
        same = fails[-1] is None and all(fails[:-1])
        return None if same else "not-made"

    def _is_looser(self) -> bool:
        own = self._config.text
        return (
            self._text.class_similarity > own.class_similarity
            or self._text.word_similarity > own.word_similarity
        )

    def _judge_image(self, item: Item, result: ItemResult) -> Choice | LeftOut | None:
        """Choose again among the sweep's images; None for an item that has no scores to judge."""
        if result.scores is None or result.strength is None:
            return None
        preset, criteria = result.preset or self._config.editing, CRITERIA[item.kind]
        if not result.sweep and len(result.strengths_tried) > 1:
            return self._judge_alone(item, result)
        sweep: list[tuple[float, Scores]] = [(each.strength, each) for each in result.sweep]
        if not sweep:
            sweep = [(result.strength, result.scores)]
        choice = choose(sweep, self.gate, self._config.request.selection, criteria)
        is_same = sweep[choice.index][0] == result.strength
        if choice.failed is not None and len(sweep) < len(preset.sweep):
            # The next value of the sweep would be tried.
            return "not-made"
        if preset.previews:
            # Only the chosen one's image was decoded in full, and judged by that.
            failed = gate(result.scores, self.gate, criteria)
            return Choice(choice.index, failed) if is_same else "not-made"
        # Judges saw the chosen image alone.
        drops = choice.failed is not None and not result.judgements
        return choice if is_same or drops else "not-classified"

    def _judge_alone(self, item: Item, result: ItemResult) -> Choice | LeftOut:
        """Judge an edit of an older run, which recorded the scores of the chosen value alone."""
        assert result.scores is not None
        own, new = self._config.gate.model_dump(), self.gate.model_dump()
        stricter = all(new[name] >= own[name] for name in own)
        passes = gate(result.scores, self.gate, CRITERIA[item.kind]) is None
        # What is best among those that pass is best among fewer of them.
        return Choice(0, None) if item.state == "done" and stricter and passes else "not-scored"


def summarize_again(run: Run, items: Iterable[Item], thresholds: Thresholds) -> StressTestSummary:
    """Sum up a run by other thresholds; by its own, its figures are the run's.

    Raises:
        InvalidRequest: the run proves a finding, with pairs that other runs judged.
    """
    config = recorded_config(StressTestConfig, run)
    if config.proof is not None:
        raise InvalidRequest(
            f"run {run.id!r} proves a finding of run {config.proof.parent!r}, by the thresholds of that run; "
            "judge that run again, or ask for this one without thresholds"
        )
    judging = JudgingAgain(config, thresholds)
    summary = summarize(run, judging.items(items), judging.rule, judging.gate)
    return summary.model_copy(update={"judged_again": judging.told()})


def judging_of(summary: StressTestSummary) -> JudgingAgain | None:
    """What judged the items of a summary; None where the run's own thresholds did."""
    told = summary.judged_again
    if told is None:
        return None
    values = {**told.gate.model_dump(), **told.text.model_dump(), "keep": told.keep, "without": told.without}
    return JudgingAgain(StressTestConfig.model_validate(summary.config), Thresholds.model_validate(values))
