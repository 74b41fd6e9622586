"""The classifiers that one user tests together: four a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.validity import roster
from evaluation.validity.contestants import BUG_FILES, Contestant

_SPREAD = ("spread-a", "spread-b", "spread-c")


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
    """The suite's four; a control beside three with bugs, three times; controls alone.

    Returns:
        The rosters whose classifiers are all trained, and the names of the others.
    """
    files = sorted(BUG_FILES.glob("*.json"))
    trained = {
        one.spec.removeprefix("local:"): one
        for one in roster.trained(each for each in roster.trainings(files, models) if each.is_done)
    }
    wanted = {each.folder.name for each in roster.trainings(files, models)}
    found = [Roster("suite", roster.suite_classifiers())]
    missing: list[str] = []
    for name, members in _wanted(sorted(wanted)).items():
        if all(member in trained for member in members):
            found.append(Roster(name, [trained[member] for member in members]))
        else:
            missing.append(name)
    return found, missing


def _wanted(names: Sequence[str]) -> dict[str, list[str]]:
    controls = [name for name in names if name.startswith("control")]
    mixed = {
        kind: [controls[number], *(name for name in names if name.startswith(kind))]
        for number, kind in enumerate(_SPREAD)
    }
    # The last four: two of them are in no other run.
    return mixed | {"controls": controls[-4:]}
