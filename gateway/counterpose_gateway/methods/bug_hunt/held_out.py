"""Held-out images of winners and of their labels alone: how many, by the rule that the request chose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from counterpose_core.bug_hunt.budget import LEAST_ROUND
from counterpose_core.bug_hunt.comparison import above_baseline
from counterpose_core.bug_hunt.pairs import DiscordantPairs, is_settled
from counterpose_core.bug_hunt.sampling import Sampling, under_budget
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction
from counterpose_core.contract.sampling_rules import FixedNumber
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.ranking import refined
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.steps.failed_samples import Counted

FIRST_HELD_OUT = 32
"""Held-out images of a prompt before the first look, under every rule but `fixed`."""


def held_out_rule(config: BugHuntConfig) -> Sampling:
    """Return the rule of held-out images."""
    return under_budget(config.request.sampling, config.shares.held_out)


def first_held_out(config: BugHuntConfig) -> int:
    """Return the held-out images of a prompt that are drawn first: all of them, under the rule `fixed`."""
    most, is_fixed = config.shares.held_out, isinstance(config.request.sampling, FixedNumber)
    return most if is_fixed else min(most, FIRST_HELD_OUT)


@dataclass(frozen=True)
class HeldOut:
    """A winner's held-out images and those of the label alone, as its classifier answers them."""

    described: Counted[HuntedItem]
    baseline: Counted[HuntedItem]
    is_fixed: bool

    @classmethod
    def of(cls, hunt: Hunt, label: str, number: int, classifier: str) -> HeldOut:
        """Count them."""
        return cls(
            hunt.record.counted("held-out", label, classifier, number),
            hunt.record.counted("held-out", label, classifier),
            isinstance(hunt.request.sampling, FixedNumber),
        )

    @property
    def pairs(self) -> DiscordantPairs:
        """Images from the same noise in pairs."""
        return DiscordantPairs.of(dict(self.described.answers), dict(self.baseline.answers))

    @property
    def p(self) -> float:
        """One-sided p of "it fails no more often than the label alone", uncorrected."""
        # Fisher's test is for numbers of images that no look at them has chosen.
        if self.is_fixed and self.described.is_whole and self.baseline.is_whole:
            return above_baseline(self.described.counts, self.baseline.counts)
        return self.pairs.p


def plan_held_out(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan fresh images of each winner as refined, and of its baseline, from the same fresh noise."""
    labels = hunt.request.labels
    won = {
        label: numbers
        for label in labels
        if (numbers := [form.final.number for form in refined(hunt, label)])
    }
    prompts = sum(1 + len(numbers) for numbers in won.values())
    size = hunt.cap(first_held_out(hunt.config), prompts, "held-out")
    if size >= LEAST_ROUND:
        for label, numbers in won.items():
            yield from _images(hunt, label, range(size), numbers)


def plan_more_held_out(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan more held-out images where the rule is not decided; under the rule `fixed` none follow."""
    if isinstance(hunt.request.sampling, FixedNumber):
        return
    won = [(label, each) for label in hunt.request.labels for each in refined(hunt, label)]
    rule, needed = held_out_rule(hunt.config), dict[str, dict[int, None]]()
    for label, each in won:
        held_out = HeldOut.of(hunt, label, each.final.number, each.classifier)
        if not is_settled(rule, held_out.described.counts, held_out.pairs, tests=len(won)):
            # Several classifiers may need the images of one description.
            needed.setdefault(label, {})[each.final.number] = None
    made = {label: len(hunt.record.of_label("held-out", label)) for label in needed}
    places = {label: range(n, min(rule.most, 2 * n)) for label, n in made.items() if n < rule.most}
    prompts = sum(1 + len(needed[label]) for label in places)
    for label, wanted in places.items():
        yield from _images(hunt, label, wanted[: hunt.cap(len(wanted), prompts, "held-out")], needed[label])


def _images(hunt: Hunt, label: str, places: range, numbers: Iterable[int]) -> Iterator[PlannedItem]:
    base = HuntInstruction(phase="held-out", prompt=hunt.config.prompts[label])
    told = (hunt.record.told(number).model_copy(update={"phase": "held-out"}) for number in numbers)
    for each in (base, *told):
        yield from plan_samples(hunt.config, label, each, places)
