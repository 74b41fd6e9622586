"""A method in one process: a hunt comes to the same end as over a ledger, and what is not held is unknown."""

from __future__ import annotations

from typing import Any, cast

import pytest

from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.errors import NotFound, UnknownDataset
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from evaluation.in_process import HeldLedger, context_of, work_off
from fakes.hunted_world import hunted_services
from fakes.world import FakeWorld, fake_suite

HUNT = {
    "classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 250}, "held_out": 32,
    "hypotheses": 4, "seed": 2,
}  # fmt: skip


def test_a_hunt_goes_through_its_stages_and_proves_the_bug() -> None:
    world, ledger = FakeWorld(), HeldLedger()
    context = context_of(hunted_services(world), cast(Any, world.store), fake_suite(), ledger)
    ended = work_off(BUG_HUNT, BugHuntCreate.model_validate(HUNT), context)
    ledger.ended[ended.run.id] = ended
    found = BUG_HUNT.summarize(ended.run, (), None, context)
    assert [bug.words for bug in found.bugs if bug.state == "breaks"] == ["in the snow"]
    assert [item.ordinal for item in ended.items] == list(range(len(ended.items)))
    assert ended.run.request_counts.total == len(ended.items) > 100
    assert max(item.stage for item in ended.items) == ended.run.stage - 1 > 3


def test_what_is_not_held_is_unknown() -> None:
    ledger = HeldLedger()
    with pytest.raises(UnknownDataset, match="'wild'"):
        ledger.datasets.get("wild")
    with pytest.raises(NotFound, match="'r'"):
        ledger.runs.get("r")
