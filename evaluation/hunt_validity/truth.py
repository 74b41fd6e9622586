"""Rendered truth of a description: how often a classifier fails on scenes that show it, drawn exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.rendered import as_tensor
from counterpose_miniature.world import render, scene_for
from counterpose_miniature.world.sampling import GENERATOR, Distribution
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, VALIDATION
from evaluation.validity.sources import FIRST, STRETCH

CLASSES = VALUES["object_class"]
USERS = Distribution(
    weights={
        "style": {"photo": 0.8, "painting": 0.1, "sketch": 0.1},
        "weather": {"clear": 0.55, "rain": 0.15, "fog": 0.15, "night": 0.15},
        "companion": {"none": 0.55, "dog": 0.15, "person": 0.15, "ball": 0.15},
    }
)
"""The scenes of somebody who uses the classifiers: mostly photos, in clear weather, of one thing alone."""
SCENES = 200
SCENES_OF_A_FINDING = 1000
"""So many that whether an interval holds their rate hardly hangs on them."""
_APART = 5_000


class Truth:
    """Failure rates of one classifier on rendered scenes, each description rendered once."""

    def __init__(self, stretch: int, cache: Path) -> None:
        self._stretch, self._cache = stretch, cache

    def rate(
        self,
        folder: Path,
        label: str,
        told: Mapping[str, str],
        scenes: int = SCENES,
        rest: Distribution = GENERATOR,
    ) -> Estimate:
        """The failure rate on scenes of a label with these values; all else as in ``rest``."""
        images = as_tensor(self._images(label, told, scenes, rest))
        predicted = Predictor(folder)(images).argmax(dim=1).numpy()
        return proportion(int((predicted != CLASSES.index(label)).sum()), len(predicted))

    def _images(self, label: str, told: Mapping[str, str], scenes: int, rest: Distribution) -> np.ndarray:
        name = "-".join([label, str(scenes), *(f"{key}={told[key]}" for key in sorted(told))])
        name += "" if rest is GENERATOR else "-users"
        path = self._cache / f"{self._stretch}-{name}.npy"
        if path.exists():
            return np.asarray(np.load(path))
        images = np.stack([render(scene) for scene in self._scenes(label, told, scenes, rest)])
        self._cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npy")
        np.save(part, images)
        part.replace(path)
        return images

    def _scenes(self, label: str, told: Mapping[str, str], scenes: int, rest: Distribution) -> list[Scene]:
        # The first stretch is for tuning, the others for validation.
        split, first = (DEVELOPMENT, FIRST) if self._stretch == 0 else (VALIDATION, FIRST + 50 * STRETCH)
        found = []
        for index in range(scenes):
            scene = scene_for(split, first + self._stretch * _APART + index, rest)
            for attribute, value in {"object_class": label, **told}.items():
                scene = scene.changed(attribute, value)
            found.append(scene)
        return found
