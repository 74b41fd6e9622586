"""Rendered truth: p(true class) of every source with exactly one attribute changed and the same nuisances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import VALUES, Scene

from .measures import Floats

CLASSES = VALUES["object_class"]
COLUMNS: tuple[tuple[str, str], ...] = tuple(
    (attribute, value)
    for attribute, values in VALUES.items()
    if attribute != "object_class"
    for value in values
)
"""Attribute and value that each column of a truth table sets."""

PLANTED_DROP = 0.15
PLANTED_LOW = 0.05
LEAST_SOURCES = 20

Images = NDArray[np.uint8]
Predict = Callable[[Images], Floats]
"""Probabilities [N, classes] of images uint8 [N, 64, 64, 3]."""

_BATCH = 512


def rendered(scenes: Sequence[Scene], cache: Path | None = None) -> Images:
    """Every source under every column, uint8 [sources, columns, 64, 64, 3]; kept in ``cache``."""
    if cache is not None and cache.exists():
        return np.asarray(np.load(cache, mmap_mode="r"))
    images = np.stack([_row(scene) for scene in tqdm(scenes, desc="render truth")])
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        part = cache.with_suffix(".part.npy")
        np.save(part, images)
        part.replace(cache)
    return images


def _row(scene: Scene) -> Images:
    drawn: dict[Scene, Images] = {}
    for attribute, value in COLUMNS:
        changed = scene.changed(attribute, value)
        if changed not in drawn:
            drawn[changed] = render(changed)
    return np.stack([drawn[scene.changed(attribute, value)] for attribute, value in COLUMNS])


def true_class_table(scenes: Sequence[Scene], images: Images, predict: Predict) -> Floats:
    """p(true class) of each source under each column, [sources, columns]."""
    flat = images.reshape(-1, *images.shape[2:])
    found = [predict(flat[start : start + _BATCH]) for start in range(0, len(flat), _BATCH)]
    probabilities = np.concatenate(found).reshape(*images.shape[:2], len(CLASSES))
    true = np.array([CLASSES.index(scene.object_class) for scene in scenes])
    return np.asarray(probabilities[np.arange(len(scenes)), :, true], dtype=np.float64)


@dataclass(frozen=True)
class Truth:
    """One classifier's answers to renderings: ``table`` [sources, columns] of p(true class)."""

    scenes: Sequence[Scene]
    table: Floats

    def p(self, source: int, attribute: str, value: str) -> float:
        """p(true class) of a source with an attribute set."""
        return float(self.table[source, COLUMNS.index((attribute, value))])

    def original(self, source: int) -> float:
        """p(true class) of a source as it is."""
        return self.p(source, "style", self.scenes[source].style)

    def drop(self, source: int, attribute: str, value: str) -> float:
        """How far p(true class) falls when exactly this attribute changes to ``value``."""
        return self.original(source) - self.p(source, attribute, value)

    def bug_drops(self, bug: Bug) -> Floats:
        """The drop that a bug causes on each source of its class: unharmed less harmed, one attribute apart.

        All other values of the attribute form the other side, with equal weights.
        """
        rows = [row for row, scene in enumerate(self.scenes) if scene.object_class == bug.object_class]
        values = VALUES[bug.attribute]
        sides = np.array([[self.p(row, bug.attribute, value) for value in values] for row in rows])
        shows = np.array([value == bug.value for value in values])
        lean = sides[:, shows].mean(axis=1) - sides[:, ~shows].mean(axis=1)
        return np.asarray(lean if bug.mode == "leans-on" else -lean)


def is_planted(drop: Estimate) -> bool:
    """Whether rendering shows a bug: a true drop of at least 0.15, lower bound above 0.05, on 20 sources."""
    if drop.estimate is None or drop.low is None or drop.n < LEAST_SOURCES:
        return False
    return drop.estimate >= PLANTED_DROP and drop.low > PLANTED_LOW


def true_drop(values: Sequence[float] | Floats, generator: np.random.Generator) -> Estimate:
    """Mean true drop over sources, one value each."""
    return bootstrap_mean([float(value) for value in values], generator)
