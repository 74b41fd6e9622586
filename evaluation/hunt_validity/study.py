"""The hunts of a stretch: which are run, each kept when it has ended, and what became of every bug."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose_core.blobs import cache_key
from counterpose_core.contract.bug_hunt_summary import Bug as FoundBug
from counterpose_core.contract.bug_hunt_summary import BugHuntSummary, FailureRate
from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.training.stage import write_atomically
from counterpose_miniature.world.sampling import GENERATOR, Distribution

from .fates import depicts, fate_of, names_bug, says
from .figures import EFFECT, exceeds
from .planted import Planned, Taught
from .report import BugReport, ClaimReport, HuntReport, Missed
from .truth import SCENES, SCENES_OF_A_FINDING, USERS, Truth

DRAWN = 200
"""Further images of a finding by the generator: what its held-out rate is the rate of."""


@dataclass(frozen=True)
class Study:
    """The hunts of a stretch by one request; ``folder`` keeps their summaries, ``models`` the classifiers."""

    stretch: int
    roster: Sequence[Taught]
    planned: Sequence[Planned]
    shared: dict[str, Any]
    folder: Path
    models: Path
    truth: Truth

    def request(self, one: Planned) -> BugHuntCreate:
        """The request of a hunt."""
        return BugHuntCreate.model_validate(
            {**self.shared, "classifiers": [f"local:{one.taught.name}"], "labels": [one.label]}
        )

    def path(self, one: Planned) -> Path:
        """Where its summary is kept."""
        weights = (self.models / one.taught.name / "model.safetensors").read_bytes()
        # What is shared, not the whole request: an option that hunts gain later changes none that is done.
        key = cache_key(request=self.shared, weights=hashlib.sha256(weights).hexdigest())
        return self.folder / f"{one.taught.name}-{one.label}-{key[:12]}.json"

    def done(self, one: Planned) -> BugHuntSummary | None:
        """Its summary, if it has ended."""
        if not (self.models / one.taught.name).exists() or not self.path(one).exists():
            return None
        return BugHuntSummary.model_validate_json(self.path(one).read_bytes())

    def keep(self, one: Planned, summary: BugHuntSummary) -> None:
        """Keep the summary of a hunt that has ended."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(one), summary.model_dump_json().encode())

    def drawn_again(self, one: Planned, summary: BugHuntSummary) -> BugHuntCreate | None:
        """The request that draws further images of what a hunt proves, from other seeds; None of nothing."""
        descriptions = list(dict.fromkeys(bug.description for bug in _proven(summary)))
        if not descriptions:
            return None
        changes: dict[str, Any] = {
            "descriptions": descriptions, "held_out": DRAWN, "refine": 0, "seed": self.shared["seed"] + 1,
            "budget": {"images": DRAWN * (1 + len(descriptions))},
        }  # fmt: skip
        return BugHuntCreate.model_validate({**self.request(one).model_dump(mode="json"), **changes})

    def drawn_path(self, one: Planned) -> Path:
        """Where the summary of these images is kept."""
        return self.path(one).with_suffix(".drawn.json")

    def keep_drawn(self, one: Planned, summary: BugHuntSummary) -> None:
        """Keep it."""
        write_atomically(self.drawn_path(one), summary.model_dump_json().encode())

    def drawn_rates(self, one: Planned) -> dict[str, Estimate]:
        """The failure rates on further images of the generator, by description."""
        if not self.drawn_path(one).exists():
            return {}
        found = BugHuntSummary.model_validate_json(self.drawn_path(one).read_bytes())
        return {bug.description: bug.failure_rate for bug in found.bugs}

    def rate(
        self, one: Planned, told: dict[str, str], scenes: int = SCENES, rest: Distribution = GENERATOR
    ) -> Estimate:
        """The failure rate of its classifier on renderings of its label under what is told."""
        return self.truth.rate(self.models / one.taught.name, one.label, told, scenes, rest)

    def bug_report(self, one: Planned, bug: Bug, summary: BugHuntSummary) -> BugReport:
        """What became of a bug that a hunt could find."""
        named = [each for each in _proven(summary) if names_bug(each.words, one.label, bug)]
        return BugReport(
            classifier=one.taught.name,
            label=one.label,
            bug=bug.id,
            attribute=bug.attribute,
            value=bug.value,
            strength=bug.strength,
            true_rate=self.rate(one, {bug.attribute: bug.value}),
            label_rate=self.rate(one, {}),
            fate=fate_of(bug, one.label, summary),
            alone=any(len(says(each.words, one.label)) == 1 for each in named) if named else None,
        )

    def claims(self, one: Planned, summary: BugHuntSummary) -> Iterable[ClaimReport]:
        """Compare each finding of a hunt that breaks with rendered truth."""
        alone = self.rate(one, depicts(summary.baselines[0].prompt), SCENES_OF_A_FINDING)
        as_drawn = self.rate(one, {}, SCENES_OF_A_FINDING)
        sources = {each.number: each.source for each in summary.hypotheses}
        drawn = self.drawn_rates(one)
        for bug in _proven(summary):
            true = self.rate(one, depicts(bug.description), SCENES_OF_A_FINDING)
            of_user = self.rate(one, says(bug.description, one.label), SCENES_OF_A_FINDING, USERS)
            of_words = self.rate(one, says(bug.words, one.label), SCENES_OF_A_FINDING)
            again = drawn.get(bug.description)
            yield ClaimReport(
                classifier=one.taught.name,
                label=one.label,
                is_control=one.is_control,
                description=bug.description,
                source=sources[bug.hypothesis],
                held_out=bug.failure_rate,
                discovery=bug.discovery.rate,
                true_rate=true,
                label_rate=alone,
                words_rate=of_words,
                user_rate=of_user,
                drawn_rate=again,
                drawn_label_rate=as_drawn,
                at_least=bug.at_least,
                covered=_has(bug.failure_rate, true),
                words_covered=_has(bug.failure_rate, of_words),
                user_covered=_has(bug.failure_rate, of_user),
                drawn_covered=None if again is None else _has(bug.failure_rate, again),
                hidden=bug.held_out.dropped.get("does-not-show-label", 0),
                missed_by=missed_by(bug.held_out, of_user),
                difference=(bug.failure_rate.estimate or 0.0) - (of_user.estimate or 0.0),
                names_bug=any(names_bug(bug.words, one.label, planted) for planted in one.bugs),
                surely_above=exceeds(true, alone, 0.0),
                is_true=exceeds(of_user, as_drawn, EFFECT),
            )

    def hunt_report(self, one: Planned, summary: BugHuntSummary) -> HuntReport:
        """A hunt in numbers."""
        return HuntReport(
            classifier=one.taught.name,
            label=one.label,
            bugs=[bug.id for bug in one.bugs],
            images=summary.images,
            descriptions=len(summary.hypotheses),
            findings=len(_proven(summary)),
            baseline_failures=summary.baselines[0].failure.rate,
        )


def _proven(summary: BugHuntSummary) -> list[FoundBug]:
    return [bug for bug in summary.bugs if bug.state == "breaks"]


def missed_by(held_out: FailureRate, true: Estimate) -> Missed | None:
    """Why an interval misses the true rate; None where it holds it.

    The filter, where the true rate would be held if all images that it hid were failures, or none was; else
    the generator, whose images of the description fail more or less often than renderings do.
    """
    if _has(held_out.rate, true):
        return None
    hidden = held_out.dropped.get("does-not-show-label", 0)
    n = (held_out.rate.n or 0) + hidden
    ends = (proportion(held_out.failures, n), proportion(held_out.failures + hidden, n))
    return "filter" if hidden and any(_has(each, true) for each in ends) else "generator"


def _has(interval: Estimate, true: Estimate) -> bool:
    if interval.low is None or interval.high is None or true.estimate is None:
        return False
    return interval.low <= true.estimate <= interval.high
