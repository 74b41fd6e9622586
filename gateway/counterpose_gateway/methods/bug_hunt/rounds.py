"""Rounds of images of descriptions: the first of all of them, each next one of the better half."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from counterpose_core.bug_hunt.budget import LEAST_ROUND, ROUNDS, promising, round_size
from counterpose_core.contract.bug_hunts import HuntInstruction
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.proposals import Proposal, proposals
from counterpose_gateway.methods.bug_hunt.ranking import standings
from counterpose_gateway.methods.bug_hunt.samples import plan_samples
from counterpose_gateway.records.items import PlannedItem


def plan_first_round(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan the first images of every description that is proposed."""
    numbers = count(1)
    by_label = {label: proposals(hunt, label) for label in hunt.request.labels}
    total = sum(map(len, by_label.values()))
    for label, proposed in by_label.items():
        size = round_size(hunt.config.shares.hypotheses, len(proposed), ROUNDS)
        size = hunt.cap(size, total, "hypothesis")
        if size < LEAST_ROUND:
            continue
        for proposal in proposed:
            yield from plan_samples(hunt.config, label, _instruction(proposal, next(numbers)), range(size))


def plan_next_round(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan more images of the better half of each label's descriptions that are left."""
    if hunt.record.rounds >= ROUNDS:
        return
    labels = hunt.request.labels
    for label in labels:
        numbers = list(hunt.record.descriptions(label))
        if not numbers:
            continue
        spent = {number: len(hunt.record.of_label("hypothesis", label, number)) for number in numbers}
        # Those that were stopped in an earlier round have fewer images.
        last = [number for number in numbers if spent[number] == max(spent.values())]
        standing = standings(hunt, label)
        better = promising([standing[number][0] for number in last], max(1, len(last) // 2))
        left = hunt.config.shares.hypotheses - sum(spent.values())
        size = round_size(left, len(better), ROUNDS - hunt.record.rounds)
        size = hunt.cap(size, len(better) * len(labels), "hypothesis")
        if size >= LEAST_ROUND:
            for number in better:
                places = range(spent[number], spent[number] + size)
                yield from plan_samples(hunt.config, label, hunt.record.told(number), places)


def _instruction(proposal: Proposal, number: int) -> HuntInstruction:
    return HuntInstruction(
        phase="hypothesis",
        prompt=proposal.description.prompt,
        hypothesis=number,
        source=proposal.description.source,
        words=proposal.description.words,
        classifiers=list(proposal.classifiers),
    )
