"""When enough images of a prompt are drawn, by the rule that the request chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.bug_hunt.comparison import above_baseline
from counterpose_core.bug_hunt.pairs import DiscordantPairs, is_settled
from counterpose_core.bug_hunt.sampling import Sampling, further_images, under_budget
from counterpose_core.contract.bug_hunts import BugHuntConfig
from counterpose_core.contract.sampling_rules import FixedNumber
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.steps.failed_samples import Counted

FIRST_HELD_OUT = 32
"""Held-out images of a prompt before the first look, under every rule but `fixed`."""


def baseline_rule(config: BugHuntConfig) -> Sampling:
    """Return the rule of the label alone, which has held-out images only where no bug is searched."""
    return under_budget(config.request.sampling, config.shares.baseline or config.shares.held_out)


def held_out_rule(config: BugHuntConfig) -> Sampling:
    """Return the rule of held-out images."""
    return under_budget(config.request.sampling, config.shares.held_out)


def more_of_baseline(config: BugHuntConfig, hunt: RecordedHunt, label: str) -> int:
    """Return how many more images of the label alone to draw, for all classifiers together."""
    made = len(hunt.of_label("baseline", label))
    seen = [hunt.counted("baseline", label, name).counts for name in config.request.classifiers]
    return further_images(baseline_rule(config), made, seen)


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
    def of(
        cls, config: BugHuntConfig, hunt: RecordedHunt, label: str, number: int, classifier: str
    ) -> HeldOut:
        """Count them."""
        return cls(
            hunt.counted("held-out", label, classifier, number),
            hunt.counted("held-out", label, classifier),
            isinstance(config.request.sampling, FixedNumber),
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


def more_held_out(
    config: BugHuntConfig, hunt: RecordedHunt, won: Sequence[tuple[str, int, str]]
) -> dict[str, tuple[range, list[int]]]:
    """Return, by label, the places of the next held-out images and the winners that need them.

    Args:
        config: the hunt's configuration.
        hunt: what is recorded.
        won: label, number and classifier of each winner.
    """
    rule = held_out_rule(config)
    needed: dict[str, list[int]] = {}
    for label, number, classifier in won:
        held_out = HeldOut.of(config, hunt, label, number, classifier)
        if not is_settled(rule, held_out.described.counts, held_out.pairs, tests=len(won)):
            needed.setdefault(label, []).append(number)
    found: dict[str, tuple[range, list[int]]] = {}
    for label, numbers in needed.items():
        made = len(hunt.of_label("held-out", label))
        if made < rule.most:
            found[label] = (range(made, min(rule.most, 2 * made)), numbers)
    return found
