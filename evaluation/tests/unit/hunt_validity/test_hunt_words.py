"""Two ways to words compared bug by bug: only what both have hunted counts."""

from __future__ import annotations

import pytest

from counterpose_core.types import Estimate
from evaluation.hunt_validity.report import BugReport, Fate, HuntValidity
from evaluation.hunt_validity.words import compared, paired
from evaluation.paths import RESULTS

MADE = HuntValidity.model_validate_json((RESULTS / "hunt-validity.json").read_bytes())
"""A file of real hunts, whose parts are changed."""


def a_bug(name: str, fate: Fate, true: float = 0.9) -> BugReport:
    rate = Estimate(estimate=true, low=0.0, high=1.0, n=200)
    changes = {"classifier": "taught", "label": name, "bug": name, "true_rate": rate, "fate": fate}
    return MADE.bugs[0].model_copy(update=changes)


def made(bugs: list[BugReport], hunted: set[str]) -> HuntValidity:
    changes = ({"classifier": "taught", "label": label, "images": 100} for label in sorted(hunted))
    hunts = [MADE.hunts[0].model_copy(update=each) for each in changes]
    return MADE.model_copy(update={"bugs": bugs, "claims": [], "hunts": hunts})


def test_bugs_that_one_way_alone_found_decide() -> None:
    fates: list[tuple[Fate, Fate]] = []
    fates += [("found", "not-described")] * 6
    fates += [("found", "found")] * 3
    fates += [("not-seen", "not-proven")] * 2
    found = paired([(a_bug(str(at), one), a_bug(str(at), two)) for at, (one, two) in enumerate(fates)])
    assert (found.both, found.only_frequency, found.only_likelihood, found.neither) == (3, 6, 0, 2)
    assert found.p == pytest.approx(2 / 2**6)
    assert (found.frequency_alone.estimate, found.frequency_alone.n) == (1.0, 6)
    # Clopper and Pearson's lower end for six of six.
    assert found.frequency_alone.low == pytest.approx(0.025 ** (1 / 6))
    assert paired([]).p is None


def test_only_hunts_that_both_ways_have_ended_are_compared() -> None:
    first = made(
        [a_bug("fly", "found"), a_bug("bee", "found", 0.2), a_bug("bus", "found")], {"fly", "bee", "bus"}
    )
    second = made([a_bug("fly", "not-described"), a_bug("bee", "found", 0.2)], {"fly", "bee"})
    found = compared({"frequency": first, "likelihood": second})
    assert (found.hunts, found.planned, len(found.bugs)) == (2, MADE.setting.planned, 2)
    assert (found.every.both, found.every.only_frequency) == (1, 1)
    assert (found.strong.both, found.strong.only_frequency) == (0, 1)
    assert found.ways["frequency"].images == found.ways["likelihood"].images == 200
    assert found.ways["frequency"].recall_of_strong.n == 1
