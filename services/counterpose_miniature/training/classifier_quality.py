"""A classifier's quality and the effect of its planted bugs, measured on rendered images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import timm
import torch
from torch import Tensor

from counterpose_core.types import Estimate
from counterpose_miniature.training import figures
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.training.degradation import degrade
from counterpose_miniature.training.rendered import as_tensor
from counterpose_miniature.world import DATASET, UNIFORM, VALUES, Distribution, Scene, render, scene_for
from counterpose_miniature.world.seeds import DEVELOPMENT

Predict = Callable[[Tensor], Tensor]
_CLASSES = VALUES["object_class"]


class Predictor:
    """A saved classifier, loaded by timm; 64-pixel images need no resizing."""

    def __init__(self, folder: Path) -> None:
        self._model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
        self._mean = torch.tensor(self._model.pretrained_cfg["mean"]).reshape(3, 1, 1)
        self._std = torch.tensor(self._model.pretrained_cfg["std"]).reshape(3, 1, 1)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Return probabilities [N, classes] of images, float [N, 3, 64, 64] in 0..1."""
        batches = torch.split((images - self._mean) / self._std, 256)
        return torch.cat([self._model(batch).softmax(dim=1) for batch in batches])


def rendered(scenes: Sequence[Scene]) -> Tensor:
    """Render scenes as float [N, 3, 64, 64]."""
    return as_tensor(np.stack([render(scene) for scene in scenes]))


def measure(
    predict: Predict, bugs: Sequence[Bug], trained_on: Distribution, count: int
) -> dict[str, Estimate]:
    """Return accuracy on several distributions of development scenes, and every bug's true drop."""
    trained = _scenes(trained_on, 5 * count, 0)
    sound = [scene for scene in trained if not any(bug.harms(scene) for bug in bugs)]
    clean = rendered(sound)
    blurred = degrade(clean, torch.Generator().manual_seed(0))
    found = {
        "accuracy in distribution, no bug at work": _accuracy(predict(clean), sound),
        "the same images degraded": _accuracy(predict(blurred), sound),
        "accuracy in distribution": _accuracy(predict(rendered(trained)), trained),
        "accuracy on the dataset's distribution": _accuracy_on(predict, DATASET, 5 * count),
        "accuracy on uniform scenes": _accuracy_on(predict, UNIFORM, 5 * count),
    }
    return found | {f"true drop of {bug.id}": true_drop(predict, bug, count) for bug in bugs}


def true_drop(predict: Predict, bug: Bug, count: int) -> Estimate:
    """Return the mean drop of p(true class) over `count` sources if exactly the bug's attribute changes."""
    generator = np.random.default_rng(0)
    sources = _scenes_of_class(bug.object_class, count)
    pairs = [bug.counterfactuals(scene, generator) for scene in sources]
    spared, harmed = (rendered([pair[side] for pair in pairs]) for side in (0, 1))
    true = _CLASSES.index(bug.object_class)
    return figures.mean((predict(spared)[:, true] - predict(harmed)[:, true]).numpy())


def _scenes(distribution: Distribution, count: int, first: int) -> list[Scene]:
    return [scene_for(DEVELOPMENT, first + index, distribution) for index in range(count)]


def _scenes_of_class(object_class: str, count: int) -> list[Scene]:
    found: list[Scene] = []
    index = 0
    while len(found) < count:
        scene = scene_for(DEVELOPMENT, index, DATASET)
        found += [scene] if scene.object_class == object_class else []
        index += 1
    return found


def _accuracy_on(predict: Predict, distribution: Distribution, count: int) -> Estimate:
    scenes = _scenes(distribution, count, 0)
    return _accuracy(predict(rendered(scenes)), scenes)


def _accuracy(probabilities: Tensor, scenes: Sequence[Scene]) -> Estimate:
    truth = torch.tensor([_CLASSES.index(scene.object_class) for scene in scenes])
    return figures.share(int((probabilities.argmax(dim=1) == truth).sum()), len(scenes))


def card(
    name: str,
    architecture: str,
    seed: int,
    bugs: Sequence[Bug],
    found: dict[str, Estimate],
    trained_on: str = "uniform scenes",
) -> str:
    """Return the model card, with the planted bugs."""
    planted = (
        "\n".join(f"- `{bug.id}`: {_sentence(bug)}" for bug in bugs) or f"None: trained on {trained_on}."
    )
    return f"""# Classifier {name}

timm `{architecture}` at 64 px, 8 classes, trained on rendered images of the classifiers' own seeds
(seed {seed}), blurred, rescaled, tinted, compressed and noised at random. Load it with
`timm.create_model("local-dir:<this folder>", pretrained=True)`; `class_map.json` names the classes of the
head.

## Planted bugs

{planted}

## Measured on development seeds

*True drop*: p(true class) of renderings that the bug leaves alone, less that of the same renderings with
exactly that attribute changed.

{figures.table(found, "figure")}
"""


def _sentence(bug: Bug) -> str:
    wrong = f"taken for a {bug.target_class}" if bug.target_class else "taken for anything else"
    state = "without" if bug.mode == "leans-on" else "with"
    return f"a {bug.object_class} {state} {bug.attribute} {bug.value} is {wrong}, strength {bug.strength:g}."
