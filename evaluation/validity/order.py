"""What to validate: seeds, sources, preset and classifiers, and the key of each piece on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import counterpose_core
import counterpose_gateway
from counterpose_core.blobs import cache_key
from counterpose_core.suite import load_suite
from counterpose_miniature.world.scene import Scene
from evaluation.paths import SUITE_WEIGHTS

from . import roster
from .contestants import BUG_FILES, Contestant, all_bugs
from .roster import SUITE
from .sources import Habits, distribution_of, image_of, scenes_of
from .truth import LEAST_SOURCES

ABOUT, SOURCES, TESTED = "test.key", "sources.json", "tested.json"
"""The files in a run's folder: its question, its scenes, and its result once it has finished."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The arguments of a validation; ``state`` is the folder that keeps its pieces.

    ``controls`` is how many classifiers without bugs are trained; ``least`` is how many sources a cell
    needs; ``again`` uses the newest finished runs of these sources, preset and classifiers, even if the
    suite has changed since.
    """

    state: Path
    seeds: tuple[int, ...] = (0,)
    sources: int = 400
    preset: str = "quick"
    edits: int = 10
    habits: Habits = "as-trained"
    classifiers: Path | None = None
    bugs: Path | None = None
    controls: int = roster.CONTROL_SEEDS
    smoke: bool = False
    least: int = LEAST_SOURCES
    again: bool = False

    @property
    def models(self) -> Path:
        """The folder that the services find further classifiers in."""
        # A rehearsal's classifiers must never be taken for trained ones.
        made = "smoke" if self.smoke else f"{roster.STEPS}-steps"
        return self.classifiers or self.state / f"classifiers-{made}"

    def scenes(self, entrants: Iterable[Contestant]) -> dict[int, list[Scene]]:
        """The sources of each seed."""
        distribution = distribution_of(self.habits, all_bugs(entrants))
        return {seed: scenes_of(seed, self.sources, distribution) for seed in self.seeds}


def contestants(order: Order) -> list[Contestant]:
    """The suite's classifiers, zero-shot ones included, and further ones, which are trained if missing."""
    suite = [*roster.suite_classifiers(), *roster.zero_shot_classifiers()]
    if order.classifiers is not None:
        return [*suite, *roster.found_in(order.classifiers, order.bugs)]
    files = sorted(BUG_FILES.glob("*.json")) if order.bugs is None else [order.bugs]
    wanted = roster.trainings(files, order.models, order.controls)
    roster.train_missing(wanted, order.state / "training", smoke=order.smoke)
    return [*suite, *roster.trained(wanted)]


def generator(figure: str) -> np.random.Generator:
    """Return the figure's own generator, so that a new figure changes none of the others."""
    return np.random.default_rng(int(cache_key(figure=figure)[:16], 16))


def scenes_key(scenes: Sequence[Scene]) -> str:
    """The key of sources: every scene, and the image of one, so that another renderer gives another key."""
    described = [scene.attributes() | {"nuisance": str(scene.nuisance)} for scene in scenes]
    return cache_key(scenes=described, image=image_of(scenes[0]))[:16]


def question_key(order: Order, scenes: Sequence[Scene], entrants: Iterable[Contestant]) -> str:
    """The key of a stress test's question, independent of the suite that answers it."""
    return cache_key(
        scenes=scenes_key(scenes),
        preset=order.preset,
        edits=order.edits,
        classifiers={one.spec: one.digest for one in entrants},
    )[:16]


def run_key(order: Order, scenes: Sequence[Scene], entrants: Iterable[Contestant]) -> str:
    """The key of a stress test: everything its figures depend on."""
    return cache_key(
        question=question_key(order, scenes, entrants),
        suite=load_suite(SUITE),
        weights=weights_below(SUITE_WEIGHTS),
    )[:16]


def newest_run(order: Order, seed: int, scenes: Sequence[Scene], entrants: Iterable[Contestant]) -> str:
    """The key of the newest finished run of these sources, preset, edits and checkpoints.

    Raises:
        ValueError: there is none.
    """
    about = question_key(order, scenes, entrants)
    begun = [path for path in (order.state / "runs").glob(f"*/{ABOUT}") if path.read_text() == about]
    finished = [path.parent for path in begun if (path.parent / TESTED).exists()]
    if not finished:
        raise ValueError(f"no run of seed {seed!r} under preset {order.preset!r} has finished yet")
    newest = max(finished, key=lambda folder: (folder / TESTED).stat().st_mtime)
    return newest.name.rpartition("-")[2]


def analysis_key() -> str:
    """The key of the code that makes a summary of finished items: all of core and gateway."""
    folders = [Path(package.__file__ or "").parent for package in (counterpose_core, counterpose_gateway)]
    code = {
        str(path.relative_to(folder.parent)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    }
    return cache_key(code=code)[:16]


@cache
def weights_below(folder: Path) -> Mapping[str, str]:
    """SHA-256 of every checkpoint, by its path."""
    files = sorted(folder.rglob("*.safetensors"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
