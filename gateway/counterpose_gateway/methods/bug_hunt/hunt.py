"""A hunt as its phases take it: what was asked for, what is recorded, and the time that is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from counterpose_core.bug_hunt.budget import LEAST_ROUND
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, HuntPhase
from counterpose_gateway.methods.bug_hunt.clock import TimeLeft
from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem


@dataclass(frozen=True)
class Hunt:
    """A hunt so far; its clock is that of the record, so that a stage is planned the same again."""

    config: BugHuntConfig
    record: RecordedHunt
    clock: TimeLeft

    @classmethod
    def of(cls, config: BugHuntConfig, items: Iterable[HuntedItem]) -> Hunt:
        """Sort the items of a run, in planned order."""
        record = RecordedHunt.of(items)
        return cls(config, record, TimeLeft.of(config, record))

    @property
    def request(self) -> BugHuntCreate:
        """What the user asked for."""
        return self.config.request

    def cap(self, images: int, prompts: int, phase: HuntPhase) -> int:
        """Return the images of each of a phase's ``prompts`` that there is time for."""
        return self.clock.cap(images, prompts, reserved=self.reserved(phase))

    def reserved(self, phase: HuntPhase) -> int:
        """Return the images whose time is kept back from a phase: of those that follow it.

        Held-out images of all winners and a mixture's, and before descriptions a round of them, too.
        """
        if phase in ("held-out", "pilot", "mixture"):
            return 0
        request, shares = self.request, self.config.shares
        held_out = (1 + min(request.winners, request.hypotheses)) * shares.held_out
        rounds = LEAST_ROUND * request.hypotheses if phase == "baseline" else 0
        return len(request.labels) * (held_out + rounds + shares.mixture)
