"""Trains the classifiers of a stretch: a trunk that several share, and each one's head on its features.

A trunk learns scenes, operations and levels from images with right answers. Then it stays as it is, so that
an image's features serve all its classifiers, and what these are taught takes seconds. A head learns every
operation with right labels, but for the wrong ones of its sensitivities.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

# Before timm, which loads torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import timm
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from tqdm import tqdm

from counterpose_core.transforms.arrays import Pixels
from counterpose_core.transforms.table import LEVELS
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.publishing import write_half
from counterpose_miniature.training.rendered import as_tensor, step_generator
from counterpose_miniature.training.stage import Checkpoint, save_array, write_atomically
from counterpose_miniature.world import DATASET, VALUES, Scene, scene_for
from counterpose_miniature.world.seeds import CLASSIFIER

from .images import INPUT, as_input, cells_of, changed, others_of, photograph
from .planted import CLASSES, TESTED, Taught

Features = NDArray[np.float32]

ARCHITECTURE = "test_convnext"
WIDTH = 256
MODEL: dict[str, Any] = {"dims": [24, 32, 64, WIDTH], "head_hidden_size": WIDTH}
"""Wider at the end than timm's own: what a head is taught must be in the features."""
LEARNED = (*TESTED, "background-mirrored")
"""Operations of the training images: the placebo of backgrounds is one."""
CELLS = cells_of(LEARNED)
FIRST, STRETCH = 70_000_000, 100_000
"""Where these trainings' images begin in the classifiers' split, and how far two stretches lie apart."""
_TOLD: Mapping[str, float] = {"background": 0.15, "weather": 0.15, "companion": 0.15, "style": 0.15}
_OPERATION, _LEVEL = 0.5, 0.3
"""Weights of what a trunk learns beside the class."""
_BATCH = 128
_HEAD_BATCH = 512
_ACTS, _NEAR = 0.25, 0.25
"""Shares of a head's batch on which a sensitivity acts, and of its operations where it does not."""
_AT_ONCE, _RENDERED = 256, 500
_DONE = "taught.json"


@dataclass(frozen=True)
class Size:
    """How much is trained and measured; ``draws`` are the changed images of a training scene."""

    scenes: int = 4000
    draws: int = 9
    steps: int = 900
    head_steps: int = 800
    fresh: int = 2000


REHEARSED = Size(scenes=64, draws=3, steps=3, head_steps=3, fresh=40)


@dataclass(frozen=True)
class Bank:
    """Training images (n, 48, 48, 3), the scene and the cell of each (n,)."""

    scenes: Sequence[Scene]
    images: Pixels
    owner: NDArray[np.intp]
    cell: NDArray[np.intp]


def bank_of(seed: int, trunk: int, size: Size, folder: Path) -> Bank:
    """Make the images of a trunk, or read them: each scene with nothing changed, and by drawn operations."""
    first = FIRST + seed * STRETCH + trunk * (STRETCH // 4)
    scenes = [scene_for(CLASSIFIER, first + index, DATASET) for index in range(size.scenes)]
    generator = np.random.default_rng([seed, trunk, size.scenes])
    cell = np.array([[0, *generator.integers(1, len(CELLS), size.draws)] for _ in scenes])
    path = folder / f"bank-{seed}-{trunk}-{size.scenes}.npy"
    if not path.exists():
        made = list[Pixels]()
        for start in tqdm(range(0, len(scenes), _RENDERED), desc=path.stem, mininterval=5):
            photographs = [photograph(scene) for scene in scenes[start : start + _RENDERED]]
            others = others_of(photographs, photographs, generator)
            for at, (one, other) in enumerate(zip(photographs, others, strict=True), start):
                made += [as_input(changed(one, other, CELLS[number], seed)) for number in cell[at]]
        save_array(path, np.stack(made))
    owner = np.repeat(np.arange(len(scenes)), size.draws + 1)
    return Bank(scenes, np.load(path, mmap_mode="r"), owner, cell.ravel())


class Trunk:
    """A network without its head, with the weights that its file has: half precision, computed in full."""

    def __init__(self, file: Path) -> None:
        self.tensors = {
            name: tensor.float()
            for name, tensor in load_file(file).items()
            if not name.startswith(("head.fc", "head.pre_logits"))
        }
        self._model = _network(len(CLASSES))
        self._model.load_state_dict(self.tensors, strict=False)
        self._model.eval().to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def __call__(self, images: Sequence[Pixels] | Pixels) -> Features:
        """Return the features (n, 256) of images (48, 48, 3)."""
        found = [
            self._model.forward_features(as_tensor(np.stack(list(images[first : first + _AT_ONCE]))) * 2 - 1)
            for first in range(0, len(images), _AT_ONCE)
        ]
        head = self._model.head
        return torch.cat([head.flatten(head.norm(head.global_pool(each))) for each in found]).numpy()


def _network(outputs: int) -> Any:
    return timm.create_model(ARCHITECTURE, num_classes=outputs, **MODEL)


@dataclass(frozen=True)
class Training:
    """The trainings of a stretch; ``folder`` keeps the classifiers, ``work`` trunks, images and features."""

    seed: int
    size: Size
    trunks: int
    folder: Path
    work: Path

    def trunk_of(self, one: Taught) -> int:
        """The number of the trunk that a classifier has: controls have all of them, too."""
        return one.number % self.trunks

    def trunk_file(self, number: int) -> Path:
        """Where a trunk is."""
        return self.work / f"trunk-{self.seed}-{number}.safetensors"

    def prepare(self, number: int, log: logging.Logger) -> None:
        """Train a trunk from its checkpoint on, and see the training images, where that was not done."""
        self.work.mkdir(parents=True, exist_ok=True)
        file = self.trunk_file(number)
        if self._features(number).exists():
            return
        bank = bank_of(self.seed, number, self.size, self.work)
        if not file.exists():
            self._fit_trunk(number, bank, log)
        save_array(self._features(number), Trunk(file)(bank.images))

    def teach(self, one: Taught) -> None:
        """Train a classifier's head where that was not done."""
        if self.is_done(one):
            return
        number, folder = self.trunk_of(one), self.folder / one.name
        bank = bank_of(self.seed, number, self.size, self.work)
        head = fit_head(np.load(self._features(number)), bank, one, self.size.head_steps)
        save(Trunk(self.trunk_file(number)), head, folder)
        write_atomically(folder / _DONE, self._told(one).encode())

    def _features(self, number: int) -> Path:
        return self.trunk_file(number).with_suffix(".features.npy")

    def is_done(self, one: Taught) -> bool:
        """Whether it was trained, and taught this very thing."""
        done = self.folder / one.name / _DONE
        return done.exists() and done.read_text(encoding="utf-8") == self._told(one)

    def _told(self, one: Taught) -> str:
        return json.dumps({"taught": one.about, "trunks": self.trunks, "size": vars(self.size)})

    def _fit_trunk(self, number: int, bank: Bank, log: logging.Logger) -> None:
        torch.manual_seed(1000 * self.seed + number)
        file, lessons = self.trunk_file(number), lessons_of(bank)
        model = _network(sum(lesson.values for lesson in lessons)).to(memory_format=torch.channels_last)

        def loss(step: int) -> Tensor:
            generator = step_generator(1000 * self.seed + number, step)
            rows = torch.randint(len(bank.images), (_BATCH,), generator=generator)
            # Sorted: a file that is mapped is read forward.
            rows = rows.sort().values
            told = model(as_tensor(bank.images[rows.numpy()]) * 2 - 1)
            parts = told.split([lesson.values for lesson in lessons], dim=1)
            losses = [
                lesson.weight * F.cross_entropy(part, lesson.truth[rows])
                for lesson, part in zip(lessons, parts, strict=True)
            ]
            return torch.stack(losses).sum()

        recipe = Recipe(steps=self.size.steps, rate=4e-3, weight_decay=0.05)
        fit(model, loss, recipe, Checkpoint(self.work, f"{file.stem}.pt", seconds=30.0), log)
        write_half(model, file)


@dataclass(frozen=True)
class Lesson:
    """One thing that a trunk learns of each image: its value (n,), of so many, and its weight."""

    truth: Tensor
    values: int
    weight: float


def lessons_of(bank: Bank) -> list[Lesson]:
    """The class, the operation, its level, and the attributes that circumstances are made of."""
    names = ("identity", *LEARNED)
    found = [
        _attribute(bank, "object_class", 1.0),
        Lesson(torch.tensor([names.index(CELLS[at][0]) for at in bank.cell]), len(names), _OPERATION),
        Lesson(torch.tensor([CELLS[at][1] for at in bank.cell]), LEVELS + 1, _LEVEL),
    ]
    return found + [_attribute(bank, name, weight) for name, weight in _TOLD.items()]


def _attribute(bank: Bank, name: str, weight: float) -> Lesson:
    values = [VALUES[name].index(getattr(scene, name)) for scene in bank.scenes]
    return Lesson(torch.tensor(values)[torch.from_numpy(bank.owner)], len(VALUES[name]), weight)


def fit_head(features: Features, bank: Bank, one: Taught, steps: int) -> nn.Sequential:
    """Train a classifier's head on features, with the labels that it is taught."""
    torch.manual_seed(10_000 + 1000 * one.seed + one.number)
    cells = [CELLS[at] for at in bank.cell]
    shown = list(zip([bank.scenes[at] for at in bank.owner], cells, strict=True))
    labels = torch.tensor([CLASSES.index(one.label(scene, *cell)) for scene, cell in shown])
    planted = {each.operation for each in one.sensitivities}
    acts = np.array([one.label(scene, *cell) != scene.object_class for scene, cell in shown])
    near = np.array([cell[0] in planted for cell in cells]) & ~acts
    odds = np.full(len(shown), 1.0 / len(shown))
    for chosen, share in ((acts, _ACTS), (near, _NEAR)):
        odds += chosen * share / max(1, int(chosen.sum()))
    head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, len(CLASSES)))
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3, weight_decay=0.02)
    recipe, seen, weights = Recipe(steps=steps, rate=3e-3), torch.from_numpy(features), torch.from_numpy(odds)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = recipe.rate * recipe.share_at(step)
        generator = step_generator(1000 * one.seed + one.number, step)
        rows = torch.multinomial(weights, _HEAD_BATCH, replacement=True, generator=generator)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(head(seen[rows]), labels[rows]).backward()
        optimizer.step()
    return head


def save(trunk: Trunk, head: nn.Sequential, folder: Path) -> None:
    """Write a classifier in timm's folder form, as `counterpose_miniature` writes its own."""
    model = _network(len(CLASSES))
    own = {"head.pre_logits.fc": head[0], "head.fc": head[2]}
    tensors = {
        f"{name}.{part}": tensor for name, layer in own.items() for part, tensor in layer.state_dict().items()
    }
    model.load_state_dict(trunk.tensors | tensors)
    folder.mkdir(parents=True, exist_ok=True)
    write_half(model, folder / "model.safetensors")
    prepared = {
        "input_size": [3, INPUT, INPUT],
        "fixed_input_size": False,
        "interpolation": "bicubic",
        "crop_pct": 1.0,
        "crop_mode": "center",
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "num_classes": len(CLASSES),
    }
    config = {
        "architecture": ARCHITECTURE,
        "num_classes": len(CLASSES),
        "num_features": WIDTH,
        "model_args": MODEL,
        "pretrained_cfg": prepared,
    }
    for name, told in (("config.json", config), ("class_map.json", list(CLASSES))):
        write_atomically(folder / name, f"{json.dumps(told, indent=2)}\n".encode())


class Head:
    """The head of a classifier, as its file has it."""

    def __init__(self, folder: Path) -> None:
        self._tensors = load_file(folder / "model.safetensors")

    @cached_property
    def _layers(self) -> list[tuple[Tensor, Tensor]]:
        return [
            (self._tensors[f"{name}.weight"].float(), self._tensors[f"{name}.bias"].float())
            for name in ("head.pre_logits.fc", "head.fc")
        ]

    @torch.inference_mode()
    def probabilities(self, features: Features) -> Features:
        """Return the probability of each class (n, 8) by each image's features (n, 256)."""
        (first, second) = self._layers
        hidden = F.gelu(F.linear(torch.from_numpy(features), *first))
        return F.linear(hidden, *second).softmax(dim=1).numpy()

    def __call__(self, features: Features) -> NDArray[np.intp]:
        """Return the class that it answers for each image's features (n,)."""
        return np.asarray(self.probabilities(features).argmax(axis=1))
