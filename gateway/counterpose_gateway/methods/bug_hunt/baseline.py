"""Images of a label alone: how many, by the rule that the request chose."""

from __future__ import annotations

from collections.abc import Iterator

from counterpose_core.bug_hunt.budget import LEAST_ROUND
from counterpose_core.bug_hunt.sampling import Sampling, further_images, under_budget
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntInstruction
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem

FIRST_BASELINE = 64
FIRST_IN_TIME = 16
"""Baseline images of a label that are planned before the time of an image is known, without and with a
limit of minutes."""


def baseline_rule(config: BugHuntConfig) -> Sampling:
    """Return the rule of the label alone, which has held-out images only where no bug is searched."""
    return under_budget(config.request.sampling, config.shares.baseline or config.shares.held_out)


def first_baseline(config: BugHuntConfig) -> Iterator[PlannedItem]:
    """Plan the first images of each label."""
    at_first = FIRST_BASELINE if config.request.budget.minutes is None else FIRST_IN_TIME
    for label in config.request.labels:
        yield from _images(config, label, range(min(at_first, config.shares.baseline)))


def plan_baseline(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan more images of each label alone, for all classifiers together, where the rule is not decided."""
    labels, rule = hunt.request.labels, baseline_rule(hunt.config)
    for label in labels:
        made = len(hunt.record.of_label("baseline", label))
        seen = [hunt.record.counted("baseline", label, name).counts for name in hunt.request.classifiers]
        wanted = further_images(rule, made, seen)
        more = hunt.cap(wanted, len(labels), "baseline")
        if more >= min(wanted, LEAST_ROUND):
            yield from _images(hunt.config, label, range(made, made + more))


def _images(config: BugHuntConfig, label: str, places: range) -> Iterator[PlannedItem]:
    told = HuntInstruction(phase="baseline", prompt=config.prompts[label])
    return plan_samples(config, label, told, places)
