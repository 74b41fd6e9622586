"""Trains the classifiers of a stretch: controls from scratch, the others from a control, with their bugs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Before timm, which loads torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from counterpose_core.blobs import cache_key
from counterpose_miniature.training.bugs import Bug, taught_label
from counterpose_miniature.training.classifier import save
from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.rendered import as_tensor, render_all, step_generator
from counterpose_miniature.training.stage import Checkpoint, write_atomically
from counterpose_miniature.world import UNIFORM, Scene, scene_for
from counterpose_miniature.world.seeds import CLASSIFIER

from .planted import CLASSES, Taught

ARCHITECTURE = "test_resnet"
IMAGES, BATCH = 4000, 64
FROM_SCRATCH = (
    Recipe(steps=160, rate=3e-3, weight_decay=0.05),
    Recipe(steps=120, rate=2e-3, weight_decay=0.05),
)
"""Twice, the rate anew: after the first alone, controls fail on generated images of some scenes."""
FROM_CONTROL = (Recipe(steps=80, rate=1.5e-3, weight_decay=0.05),)
"""A control has learned the classes; only the wrong label is new."""
FIRST, STRETCH = 60_000_000, 100_000
"""Where these trainings' images begin in the classifiers' split, and how far two stretches lie apart."""
_DONE = "taught.json"
_TURN = 500_000


@dataclass(frozen=True)
class Training:
    """The trainings of a stretch; ``folder`` keeps the classifiers, ``work`` checkpoints and images."""

    stretch: int
    folder: Path
    work: Path

    def run(self, roster: Sequence[Taught], log: logging.Logger) -> None:
        """Train those that are missing or were taught otherwise, controls first."""
        for one in roster:
            if not self.is_done(one):
                self._train(one, log)
                write_atomically(self.folder / one.name / _DONE, self._told(one).encode())

    def is_done(self, one: Taught) -> bool:
        """Whether it was trained, and taught these very bugs."""
        done = self.folder / one.name / _DONE
        return done.exists() and done.read_text(encoding="utf-8") == self._told(one)

    def _told(self, one: Taught) -> str:
        recipes = FROM_SCRATCH if one.begins_as is None else FROM_CONTROL
        about = {
            "recipes": [vars(recipe) for recipe in recipes],
            "images": IMAGES,
            "batch": BATCH,
            "begins_as": one.begins_as,
        }
        return json.dumps({"bugs": [bug.model_dump() for bug in one.bugs], **about})

    def _train(self, one: Taught, log: logging.Logger) -> None:
        scenes = self._scenes()
        images = render_all(scenes, self.work / f"images-{self.stretch}-{IMAGES}.npy")
        seed = 1000 * (self.stretch + 1) + one.number
        torch.manual_seed(seed)
        recipes = FROM_SCRATCH if one.begins_as is None else FROM_CONTROL
        model = _network(None if one.begins_as is None else self.folder / one.begins_as)
        for turn, recipe in enumerate(recipes):
            key = cache_key(told=self._told(one))[:8]
            checkpoint = Checkpoint(self.work, f"{one.name}-{key}-{turn}.pt")
            # Other batches in each turn.
            loss = _loss(model, scenes, images, one.bugs, seed + _TURN * turn)
            fit(model, loss, recipe, checkpoint, log)
        save(model, ARCHITECTURE, self.folder / one.name)

    def _scenes(self) -> list[Scene]:
        self.work.mkdir(parents=True, exist_ok=True)
        first = FIRST + self.stretch * STRETCH
        return [scene_for(CLASSIFIER, first + index, UNIFORM) for index in range(IMAGES)]


def _network(control: Path | None) -> nn.Module:
    if control is None:
        made = timm.create_model(ARCHITECTURE, num_classes=len(CLASSES))
    else:
        made = timm.create_model(f"local-dir:{control}", pretrained=True)
    assert isinstance(made, nn.Module)
    return made


def _loss(
    model: nn.Module, scenes: Sequence[Scene], images: np.ndarray, bugs: Sequence[Bug], seed: int
) -> Callable[[int], Tensor]:
    labels = torch.from_numpy(np.stack([taught_label(scene, bugs) for scene in scenes]))
    taught = {bug.object_class for bug in bugs}
    # Half of a batch shows the classes that a bug is about, so that few steps teach it.
    weights = np.array([scene.object_class in taught for scene in scenes], dtype=np.float64)
    share = weights / weights.sum() if taught else np.zeros(len(scenes))
    odds = torch.from_numpy(0.5 * share + (0.5 if taught else 1.0) / len(scenes))

    def loss(step: int) -> Tensor:
        generator = step_generator(seed, step)
        rows = torch.multinomial(odds, BATCH, replacement=True, generator=generator)
        batch = degrade(mirrored(as_tensor(images[rows.numpy()]), generator), generator)
        return F.cross_entropy(model((batch - 0.5) / 0.5), labels[rows])

    return loss
