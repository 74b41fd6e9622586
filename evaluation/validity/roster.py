"""The classifiers under test: the suite's and further ones, each with the bugs it was taught."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.suite import load_suite
from counterpose_miniature.training.bugs import SUITE_BUGS, read_bugs
from counterpose_miniature.training.classifier import main as train
from counterpose_miniature.training.classifiers import DEFAULTS, FOLDER
from counterpose_miniature.training.stage import write_atomically
from counterpose_miniature.world.scene import VALUES
from counterpose_services.classifiers.zero_shot import prompt_of
from evaluation.paths import SUITE_WEIGHTS

from .contestants import BUG_FILES, WEIGHTS, Contestant

SUITE = "miniature"

TRAINING_SEEDS = 3
CONTROL_SEEDS = 5
STEPS = 150
"""A third of the suite's training. Without bugs both lengths are right in .998 or more, but after the long
one p(true class) is .9994 and most true drops are below .001: an order of cells that no image could show."""
_FIRST_SEED = 100
"""The suite's own trainings use the seeds below this one."""
_FURTHER_CONTROLS = 1_000
"""Seeds of controls beyond ``CONTROL_SEEDS``: each file has ten seeds, and a file may come after the last."""
_DONE = "figures.json"
_TAUGHT = "taught.json"
_NAME = re.compile(r"(?P<file>.+)-seed(?P<seed>\d+)")


@dataclass(frozen=True)
class Training:
    """A classifier to be trained: its bug file and seed, and the folder it goes to."""

    bugs: Path
    seed: int
    folder: Path

    @property
    def is_done(self) -> bool:
        """Whether it was trained on these very bugs, and measured."""
        taught = self.folder / _TAUGHT
        finished = (self.folder / _DONE).exists() and taught.exists()
        return finished and taught.read_bytes() == self.bugs.read_bytes()

    def run(self, work: Path, *, smoke: bool = False) -> None:
        """Train it, resuming from its checkpoint."""
        given = ["--bugs", self.bugs, "--seed", self.seed, "--out", self.folder, "--work", work]
        given += ["--steps", STEPS]
        train([str(argument) for argument in given] + (["--smoke"] if smoke else []))
        write_atomically(self.folder / _TAUGHT, self.bugs.read_bytes())


def suite_classifiers() -> list[Contestant]:
    """The suite's own, by name."""
    return [
        Contestant(name, SUITE_WEIGHTS / FOLDER / name, tuple(read_bugs(SUITE_BUGS / f"{name}.json")))
        for name in DEFAULTS
    ]


def zero_shot_classifiers() -> list[Contestant]:
    """The suite's zero-shot classifiers, asked for as ``clip:<name>``."""
    prompts = tuple(prompt_of(name) for name in VALUES["object_class"])
    folders = load_suite(SUITE).classifiers.zero_shot
    return [
        Contestant(f"clip:{name}", SUITE_WEIGHTS / folder, (), prompts) for name, folder in folders.items()
    ]


def trainings(files: Sequence[Path], folder: Path, controls: int = CONTROL_SEEDS) -> list[Training]:
    """Each bug file at three seeds, a file without bugs at ``controls``; every training has its own seed."""
    return [
        Training(file, seed, folder / f"{file.stem}-seed{seed}")
        for file in sorted(files)
        for seed in _seeds(file, TRAINING_SEEDS if read_bugs(file) else controls)
    ]


def _seeds(file: Path, count: int) -> list[int]:
    first, near = _first_seed(file), min(count, CONTROL_SEEDS)
    further = _FURTHER_CONTROLS + 10 * first
    return [*range(first, first + near), *range(further, further + count - near)]


def _first_seed(file: Path) -> int:
    # A committed file keeps its seeds, whichever others are trained as well.
    committed = [path.stem for path in sorted(BUG_FILES.glob("*.json"))]
    number = committed.index(file.stem) if file.stem in committed else len(committed)
    return _FIRST_SEED + 10 * number


def train_missing(wanted: Iterable[Training], work: Path, *, smoke: bool = False) -> None:
    """Train the missing classifiers, one after another."""
    for training in wanted:
        if not training.is_done:
            training.run(work, smoke=smoke)


def trained(wanted: Iterable[Training]) -> list[Contestant]:
    """The classifiers that were trained."""
    return [Contestant(f"local:{one.folder.name}", one.folder, tuple(read_bugs(one.bugs))) for one in wanted]


def found_in(folder: Path, bugs: Path | None) -> list[Contestant]:
    """A folder's classifiers: all with the bugs of one file, or each with those of the file it is named for.

    Raises:
        ValueError: there is none, or no file says what one of them was taught.
    """
    folders = sorted(path.parent for path in folder.glob(f"*/{WEIGHTS}"))
    if not folders:
        raise ValueError(f"no folder of {str(folder)!r} holds {WEIGHTS!r}")
    return [
        Contestant(f"local:{path.name}", path, tuple(read_bugs(bugs or _file_of(path)))) for path in folders
    ]


def _file_of(folder: Path) -> Path:
    named = _NAME.fullmatch(folder.name)
    file = BUG_FILES / f"{named['file']}.json" if named else None
    if file is None or not file.exists():
        raise ValueError(f"what was {folder.name!r} taught? Name its bug file (BUGS=FILE)")
    return file
