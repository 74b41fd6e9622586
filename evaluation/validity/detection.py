"""Whether significant insights name the planted bugs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.contract.stress_tests import Insight
from counterpose_core.types import Estimate
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.scene import VALUES

from .changes import Change, by_source
from .contestants import Contestant
from .matching import Meaning, Told, meanings, members
from .measures import clustered_share, share
from .report import BugReport, Detection, Finding, Verdict
from .truth import PLANTED_LOW, Truth, is_planted, true_drop

STRONG = 0.3
ALARM = 0.05
EFFECTS: Mapping[str, tuple[float, float]] = {
    "0.15-0.3": (0.15, 0.3),
    "0.3-0.5": (0.3, 0.5),
    "0.5-1": (0.5, 1.01),
}
PERMUTATIONS = 500
ANY_DROP = 2.0


@dataclass(frozen=True)
class Trial:
    """One stress test and the truth on its own sources; ``insights`` are the significant ones."""

    seed: int
    insights: Sequence[Insight]
    changes: Sequence[Change]
    truths: Mapping[str, Truth]


@dataclass(frozen=True)
class Chance:
    """One planted bug in one stress test: a chance to find it."""

    seed: int
    classifier: str
    bug: Bug
    drop: float

    @property
    def name(self) -> str:
        """Its name in reports: classifier, bug and seed of the sources."""
        return f"{self.classifier}/{self.bug.id}@{self.seed}"


def bug_reports(
    contestants: Sequence[Contestant], truths: Mapping[str, Truth], generator: np.random.Generator
) -> list[BugReport]:
    """Every bug that was taught, with its true drop by rendering."""
    found = []
    for contestant in contestants:
        for bug in contestant.bugs:
            drop = true_drop(truths[contestant.spec].bug_drops(bug), generator)
            known = bug.model_dump(exclude={"target_class"})
            found.append(
                BugReport(classifier=contestant.spec, true_drop=drop, planted=is_planted(drop), **known)
            )
    return found


def chances(reports: Sequence[BugReport], seeds: Sequence[int]) -> list[Chance]:
    """The planted bugs, once for each seed's stress test."""
    return [
        Chance(seed, report.classifier, _bug(report), report.true_drop.estimate)
        for seed in seeds
        for report in reports
        if report.planted and report.true_drop.estimate is not None
    ]


def _bug(report: BugReport) -> Bug:
    # Which class it is mistaken for does not matter for finding the bug.
    target = next(name for name in VALUES["object_class"] if name != report.object_class)
    fields = report.model_dump(exclude={"classifier", "true_drop", "planted"})
    return Bug(target_class=target, **fields)


def names(insight: Told, chance: Chance) -> bool:
    """Whether an insight or a finding is about this bug of this classifier."""
    said = meanings(insight) if insight.classifier == chance.classifier else []
    return any(meaning.names(chance.bug) for meaning in said)


def finding(
    insight: Insight, trial: Trial, planted: Sequence[Chance], generator: np.random.Generator
) -> Finding:
    """Compare one insight with the truth on the sources it is about."""
    truth = trial.truths[insight.classifier]
    spoken_of = members(insight, trial.changes)
    drop = true_drop(by_source((one.source, one.true(truth)) for one in spoken_of), generator)
    bugs = [one.name for one in planted if one.seed == trial.seed and names(insight, one)]
    return Finding(
        seed=trial.seed,
        classifier=insight.classifier,
        object_class=insight.object_class,
        edit_type=insight.edit_type,
        removed=insight.removed,
        added=insight.added,
        estimated_drop=_negated(insight.delta_p),
        true_drop=drop,
        bugs=bugs,
        verdict=verdict_of(drop, bugs),
    )


def verdict_of(drop: Estimate, bugs: Sequence[str]) -> Verdict:
    """What a true drop, and the planted bugs that are named, make of an insight or a finding."""
    if drop.high is not None and drop.high < ALARM:
        return "false-alarm"
    return "true" if bugs or (drop.low is not None and drop.low > PLANTED_LOW) else "undecided"


def _negated(change: Estimate) -> Estimate:
    if change.estimate is None or change.low is None or change.high is None:
        return change
    return Estimate(estimate=-change.estimate, low=-change.high, high=-change.low, n=change.n)


def found_chances(planted: Sequence[Chance], trials: Sequence[Trial]) -> list[Chance]:
    """Planted bugs that a significant insight of the same stress test names."""
    insights = {trial.seed: trial.insights for trial in trials}
    return [one for one in planted if any(names(insight, one) for insight in insights[one.seed])]


def recall_when_permuted(
    planted: Sequence[Chance],
    trials: Sequence[Trial],
    generator: np.random.Generator,
    draws: int = PERMUTATIONS,
) -> Estimate:
    """Recall after the insights' classes were exchanged, so that none keeps its own."""
    said = {trial.seed: _said(trial.insights) for trial in trials}
    found = []
    for _ in range(draws if planted else 0):
        exchanged = _exchange(generator)
        hits = [_named(one, said[one.seed], exchanged) for one in planted]
        found.append(float(np.mean(hits)))
    if not found:
        return Estimate(estimate=None, low=None, high=None, n=0)
    low, high = (float(end) for end in np.quantile(found, (0.025, 0.975)))
    return Estimate(estimate=float(np.mean(found)), low=low, high=high, n=len(planted))


def _said(insights: Sequence[Insight]) -> list[tuple[str, Meaning]]:
    return [(insight.classifier, meaning) for insight in insights for meaning in meanings(insight)]


def _named(chance: Chance, said: Sequence[tuple[str, Meaning]], exchanged: Mapping[str, str]) -> bool:
    home = next(old for old, new in exchanged.items() if new == chance.bug.object_class)
    moved = chance.bug.model_copy(update={"object_class": home})
    return any(classifier == chance.classifier and meaning.names(moved) for classifier, meaning in said)


def _exchange(generator: np.random.Generator) -> dict[str, str]:
    classes = VALUES["object_class"]
    while True:
        order = [classes[index] for index in generator.permutation(len(classes))]
        if all(old != new for old, new in zip(classes, order, strict=True)):
            return dict(zip(classes, order, strict=True))


def detection(
    planted: Sequence[Chance],
    trials: Sequence[Trial],
    controls: Sequence[str],
    generator: np.random.Generator,
) -> tuple[Detection, list[Chance]]:
    """All figures of finding bugs, and the bugs that were found; shares resample classifiers."""
    findings = [finding(insight, trial, planted, generator) for trial in trials for insight in trial.insights]
    found = found_chances(planted, trials)
    tested = list(dict.fromkeys(name for trial in trials for name in trial.truths))
    alarmed = {one.classifier for one in findings if one.verdict == "false-alarm"}

    def recall(least: float, below: float) -> Estimate:
        wanted = [one for one in planted if least <= one.drop < below]
        return clustered_share(((one.classifier, one in found) for one in wanted), generator)

    def of_findings(hit: Callable[[Finding], bool]) -> Estimate:
        return clustered_share(((one.classifier, hit(one)) for one in findings), generator)

    figures = Detection(
        recall_of_strong=recall(STRONG, ANY_DROP),
        recall=recall(0.0, ANY_DROP),
        recall_by_true_drop={name: recall(*span) for name, span in EFFECTS.items()},
        recall_when_permuted=recall_when_permuted(planted, trials, generator),
        precision=of_findings(lambda one: one.verdict == "true"),
        named_a_bug=of_findings(lambda one: bool(one.bugs)),
        false_alarms=of_findings(lambda one: one.verdict == "false-alarm"),
        controls_with_a_false_alarm=share([name in alarmed for name in controls]),
        classifiers_with_a_false_alarm=share([name in alarmed for name in tested]),
        findings=findings,
    )
    return figures, found
