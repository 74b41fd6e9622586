"""The gate on the miniature suite: rendered counterfactuals, real networks, and bugs that were planted.

Every source image of the world is rendered again with one attribute changed, one for each edit type: true
counterfactuals, without an editor's error. A trial draws source images from a pool, without replacement. The
incumbent is the suite's unbiased network, or the one whose copy is the candidate.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from counterpose_core.contract.gates import GateOutcome
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import EditType, Estimate
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.rendered import as_tensor, render_all
from counterpose_miniature.world import DATASET, VALUES, Scene
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from evaluation.gate.simulation import Flags, gate
from evaluation.paths import SUITE_WEIGHTS

CHANGED: Mapping[EditType, str] = {
    "subject": "kind",
    "object": "companion",
    "background": "background",
    "adjective": "colour",
    "domain": "style",
}
"""The attribute that each edit type changes."""

UNBIASED = "unbiased-resnet"
LEANING = ("leaning-resnet", "leaning-vit", "leaning-convnext")
BITS = (8, 4)
"""Bits of the rounded weights of the candidates that are equal to their incumbents."""

_FIRST = 9_000_000
_CLASSES = VALUES["object_class"]


@dataclass(frozen=True)
class MiniatureTrials:
    """How often the gate came to each outcome for one candidate and incumbent, and how often both err."""

    candidate: str
    incumbent: str
    sources: int
    outcomes: dict[GateOutcome, Estimate]
    disagreement: float
    errors: dict[str, float]


class Pool:
    """Rendered source images with a counterfactual of each edit type, equally many of each class."""

    def __init__(self, per_class: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.scenes: list[Scene] = list(balanced_scenes(VALIDATION, DATASET, per_class, _FIRST))
        changed = [
            scene.changed(attribute, _other(scene, attribute, generator))
            for scene in self.scenes
            for attribute in CHANGED.values()
        ]
        self.labels = np.array([_CLASSES.index(scene.object_class) for scene in self.scenes], dtype=np.intp)
        self._images = as_tensor(render_all([*self.scenes, *changed]))

    @cached_property
    def _true(self) -> NDArray[np.intp]:
        return np.concatenate([self.labels, np.repeat(self.labels, len(CHANGED))])

    def right(self, predict: Predictor) -> Flags:
        """Whether each answer is right (sources, 1 + changes), that to the source image first."""
        told = predict(self._images).argmax(dim=1).numpy() == self._true
        before, after = told[: len(self.labels)], told[len(self.labels) :]
        return np.concatenate([before[:, None], after.reshape(len(self.labels), len(CHANGED))], axis=1)


def _other(scene: Scene, attribute: str, generator: np.random.Generator) -> str:
    others = [value for value in VALUES[attribute] if value != getattr(scene, attribute)]
    return others[int(generator.integers(len(others)))]


def rounded(predict: Predictor, bits: int) -> Predictor:
    """Return a copy whose weights are rounded to so many bits, as in an export for a small device."""
    made = copy.deepcopy(predict)
    with torch.no_grad():
        for module in made._model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                step = module.weight.abs().max() / (2 ** (bits - 1) - 1)
                module.weight.copy_((module.weight / step).round() * step)
    return made


def measure(
    pool: Pool, names: tuple[str, str], rights: tuple[Flags, Flags], sources: int, replicates: int, seed: int
) -> MiniatureTrials:
    """Run the gate on ``replicates`` draws of source images from the pool."""
    generator, counts = np.random.default_rng(seed), Counter[GateOutcome]()
    candidate, incumbent = rights
    for _ in range(replicates):
        drawn = generator.choice(len(pool.labels), sources, replace=False)
        kept = np.ones((sources, len(CHANGED)), dtype=np.bool_)
        counts[gate(incumbent[drawn], candidate[drawn], kept, pool.labels[drawn], generator)] += 1
    outcomes: tuple[GateOutcome, ...] = ("passed", "failed", "inconclusive")
    return MiniatureTrials(
        candidate=names[0],
        incumbent=names[1],
        sources=sources,
        outcomes={outcome: proportion(counts[outcome], replicates) for outcome in outcomes},
        disagreement=float((candidate != incumbent).mean()),
        errors={name: float(1.0 - right.mean()) for name, right in zip(names, rights, strict=True)},
    )


def miniature(per_class: int, sources: int, replicates: int, seed: int) -> list[MiniatureTrials]:
    """Gate equal candidates and those with planted bugs."""
    pool = Pool(per_class, seed)
    predictors = {name: Predictor(SUITE_WEIGHTS / "classifiers" / name) for name in (UNBIASED, *LEANING)}
    rights = {name: pool.right(predict) for name, predict in predictors.items()}
    for name in (UNBIASED, LEANING[0]):
        for bits in BITS:
            rights[f"{name}, {bits} bits"] = pool.right(rounded(predictors[name], bits))
    pairs = [(f"{name}, {bits} bits", name) for name in (UNBIASED, LEANING[0]) for bits in BITS]
    pairs += [(name, UNBIASED) for name in LEANING]
    return [
        measure(pool, pair, (rights[pair[0]], rights[pair[1]]), sources, replicates, seed + 1 + place)
        for place, pair in enumerate(pairs)
    ]
