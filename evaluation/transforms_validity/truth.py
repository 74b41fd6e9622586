"""The truth by measurement: what an operation costs a classifier on fresh scenes that no run has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.stress_test.operations import PairedAnswers
from counterpose_core.types import Estimate
from counterpose_miniature.training.stage import save_array
from counterpose_miniature.world import DATASET, Distribution, Scene, scene_for
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from evaluation.validity import sources

from .figures import generator
from .images import CONTROL, Cell, Photograph, as_input, changed, others_of, photograph
from .planted import CLASSES, Sensitivity, Taught
from .training import Head, Training, Trunk

_ALL, _FORCED = 30_000, 50_000
"""Where fresh scenes begin in a stretch, behind those of its runs."""


@dataclass(frozen=True)
class Pool:
    """Fresh scenes: of all classes alike, of one alone, or under a circumstance."""

    object_class: str | None = None
    circumstance: tuple[str, str] | None = None

    @classmethod
    def of(cls, one: Sensitivity) -> Pool:
        """The scenes that a sensitivity is about."""
        return cls(one.object_class, one.circumstance)

    @property
    def name(self) -> str:
        """Its name on disk."""
        return "-".join((*(self.circumstance or ()), self.object_class or "all"))

    def scenes(self, seed: int, count: int) -> list[Scene]:
        """Draw so many from a stretch of validation scenes."""
        first = start_of(seed)
        if self == Pool():
            return list(balanced_scenes(VALIDATION, DATASET, count // len(CLASSES), first + _ALL))
        forced = self.circumstance or ("object_class", self.object_class or "")
        weights = {**DATASET.weights, forced[0]: {forced[1]: 1.0}}
        given = {key: table for key, table in DATASET.given_class.items() if key[1] != forced[0]}
        drawn = Distribution(weights, given)
        return [scene_for(VALIDATION, first + _FORCED + index, drawn) for index in range(count)]


def start_of(seed: int) -> int:
    """Where a stretch of validation scenes begins."""
    return sources.FIRST + seed * sources.STRETCH


@lru_cache(maxsize=2)
def _photographs(pool: Pool, seed: int, count: int) -> Sequence[Photograph]:
    return [photograph(scene) for scene in pool.scenes(seed, count)]


@lru_cache(maxsize=8)
def _trunk(file: Path) -> Trunk:
    return Trunk(file)


@lru_cache(maxsize=64)
def _head(folder: Path) -> Head:
    return Head(folder)


@dataclass(frozen=True)
class Truth:
    """The losses of the classifiers of a training on fresh scenes; features are kept in ``folder``."""

    training: Training
    folder: Path
    _held: dict[tuple[str, Pool, Cell], Flags] = field(default_factory=dict, compare=False, repr=False)

    @property
    def seed(self) -> int:
        """The stretch."""
        return self.training.seed

    def measure(self, job: tuple[Pool, Cell]) -> None:
        """Compute the features of a pool's images under an operation, where that was not done."""
        pool, cell = job
        path = self._path(pool, cell)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        count = self.training.size.fresh
        shown = _photographs(pool, self.seed, count)
        # Backgrounds are those of all scenes, whatever class is asked about.
        pairs = _with_others(shown, _photographs(Pool(), self.seed, count), cell)
        images = [as_input(changed(one, other, cell, self.seed)) for one, other in pairs]
        trunks = [_trunk(self.training.trunk_file(number)) for number in range(self.training.trunks)]
        save_array(path, np.stack([trunk(images).astype(np.float16) for trunk in trunks]))

    def loss(self, one: Taught, pool: Pool, cell: Cell) -> Estimate:
        """The accuracy of a classifier on a pool with nothing changed, less that under an operation."""
        before, after = self._right(one, pool, CONTROL), self._right(one, pool, cell)
        drawn = generator(f"{one.name} {pool.name} {cell}")
        return PairedAnswers(np.arange(len(before)), before, after).loss(drawn)

    def by_class(self, one: Taught, cell: Cell) -> dict[str, float]:
        """The loss on the scenes of each class, among those of all classes alike."""
        before, after = self._right(one, Pool(), CONTROL), self._right(one, Pool(), cell)
        losses, true = before.astype(np.float64) - after, self._true(Pool())
        return {name: float(losses[true == at].mean()) for at, name in enumerate(CLASSES)}

    def accuracy(self, one: Taught) -> float:
        """The share of fresh scenes that a classifier answers rightly with nothing changed."""
        return float(self._right(one, Pool(), CONTROL).mean())

    def _right(self, one: Taught, pool: Pool, cell: Cell) -> Flags:
        key = one.name, pool, cell
        if key not in self._held:
            self.measure((pool, cell))
            features = np.load(self._path(pool, cell))[self.training.trunk_of(one)].astype(np.float32)
            answered = _head(self.training.folder / one.name)(features)
            self._held[key] = np.asarray(answered == self._true(pool))
        return self._held[key]

    def _true(self, pool: Pool) -> NDArray[np.intp]:
        return _classes(pool, self.seed, self.training.size.fresh)

    def _path(self, pool: Pool, cell: Cell) -> Path:
        size = self.training.size.fresh
        return self.folder / f"truth-{self.seed}-{size}" / f"{pool.name}-{cell[0]}-{cell[1]}.npy"


@lru_cache(maxsize=64)
def _classes(pool: Pool, seed: int, count: int) -> NDArray[np.intp]:
    return np.array([CLASSES.index(scene.object_class) for scene in pool.scenes(seed, count)])


def _with_others(
    shown: Sequence[Photograph], all_: Sequence[Photograph], cell: Cell
) -> list[tuple[Photograph, Photograph]]:
    drawn = np.random.default_rng([len(shown), cell[1]])
    return list(zip(shown, others_of(shown, all_, drawn), strict=True))
