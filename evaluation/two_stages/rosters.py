"""The classifiers that one user tests together: four a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose_miniature.training.bugs import read_bugs
from evaluation.validity import roster
from evaluation.validity.contestants import BUG_FILES, Contestant
from evaluation.validity.roster import Training

SIZE = 4
"""Classifiers of a run."""
SUITES_OWN, CONTROLS = "suite", "controls"
ROUND = "spread-{}"
NAMES = (SUITES_OWN, *(ROUND.format(number + 1) for number in range(roster.TRAINING_SEEDS)), CONTROLS)
"""The rosters, in the order in which they are tested."""


@dataclass(frozen=True)
class Roster:
    """Classifiers that are tested in one run."""

    name: str
    classifiers: Sequence[Contestant]

    @property
    def specs(self) -> list[str]:
        """Their names in a request."""
        return [one.spec for one in self.classifiers]


def rosters(models: Path) -> tuple[list[Roster], list[str]]:
    """The suite's four; a control beside one classifier of each bug file, three times; controls alone.

    Returns:
        The rosters whose classifiers are trained, and the names of the others. Of the controls, those that
        are trained.
    """
    suite = roster.suite_classifiers()
    wanted = roster.trainings(sorted(BUG_FILES.glob("*.json")), models)
    trained = {one.spec: one for one in roster.trained(each for each in wanted if each.is_done)}
    found, missing = [Roster(SUITES_OWN, suite)], list[str]()
    for name, specs in rounds(wanted).items():
        if all(spec in trained for spec in specs):
            found.append(Roster(name, [trained[spec] for spec in specs]))
        else:
            missing.append(name)
    controls = [one for one in [*suite, *trained.values()] if not one.bugs]
    return [*found, Roster(CONTROLS, controls[-SIZE:])], missing


def needed(names: Collection[str], models: Path) -> list[Training]:
    """The trainings that the rosters of these names are made of, whether done or not."""
    wanted = roster.trainings(sorted(BUG_FILES.glob("*.json")), models)
    specs = {spec for name, members in rounds(wanted).items() for spec in _members(name, members, names)}
    return [each for each in wanted if f"local:{each.folder.name}" in specs]


def _members(name: str, members: Sequence[str], names: Collection[str]) -> Sequence[str]:
    if name in names:
        return members
    # The first of each round is its control.
    return members[:1] if CONTROLS in names else []


def rounds(wanted: Sequence[Training]) -> Mapping[str, list[str]]:
    """Name the classifiers of each round: a control, and the same training of each bug file."""
    by_file: dict[Path, list[str]] = {}
    for each in wanted:
        by_file.setdefault(each.bugs, []).append(f"local:{each.folder.name}")
    # The control first: its file has no bugs.
    files = sorted(by_file, key=lambda file: (bool(read_bugs(file)), file.name))
    fewest = min(map(len, by_file.values()))
    return {ROUND.format(number + 1): [by_file[file][number] for file in files] for number in range(fewest)}
