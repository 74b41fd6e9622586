"""One engine of each service, and its calls: what a run sends, with any number of items."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import captioner, classifiers, editor, perturber, scorer
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import Suite
from counterpose_core.types import ServiceName
from counterpose_miniature.world import UNIFORM, caption, render, scene_for
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import DEVELOPMENT
from counterpose_services.editor.work import planned_evaluations

ITEMS = "item"
EVALUATIONS = "network evaluation"
BACKGROUNDS = VALUES["background"]


@dataclass(frozen=True)
class Shot:
    """A stored image with its caption, and the caption of the same scene elsewhere."""

    image: str
    caption: str
    elsewhere: str


class Album:
    """Rendered images, a new one at each call: no cache of an engine knows it."""

    def __init__(self, store: BlobStore, side: int) -> None:
        self._store, self._side = store, side
        self._numbers = count()

    def next(self, n: int) -> list[Shot]:
        """Store ``n`` new images."""
        return [self._shot() for _ in range(n)]

    def _shot(self) -> Shot:
        scene = scene_for(DEVELOPMENT, next(self._numbers), UNIFORM)
        other = next(each for each in BACKGROUNDS if each != scene.background)
        pixels = np.asarray(Image.fromarray(render(scene)).resize((self._side, self._side)))
        elsewhere = caption(replace(scene, background=other))
        return Shot(self._store.put(encode_png(pixels)), caption(scene), elsewhere)


def captions(engine: Any, suite: Suite, shots: list[Shot]) -> float:
    """Caption the images; return the number of items."""
    items = [captioner.CaptionItem(image=shot.image) for shot in shots]
    return _items(engine.caption(captioner.CaptionRequest(items=items)))


def perturbations(engine: Any, suite: Suite, shots: list[Shot]) -> float:
    """Propose an edit of each caption; return the number of items."""
    items = [
        perturber.PerturbItem(caption=shot.caption, perturbation_type="background", n=1, seed=number)
        for number, shot in enumerate(shots)
    ]
    return _items(engine.perturb(perturber.PerturbRequest(items=items)))


def edits(engine: Any, suite: Suite, shots: list[Shot]) -> float:
    """Edit each image with the suite's default preset; return the planned evaluations."""
    items = [
        editor.EditItem(image=shot.image, caption=shot.caption, edited_caption=shot.elsewhere)
        for shot in shots
    ]
    call = editor.EditRequest(items=items, preset=suite.editor.presets[suite.editor.default_preset])
    _items(engine.edit(call, cancelled=lambda: False))
    return planned_evaluations(call)


def scores(engine: Any, suite: Suite, shots: list[Shot]) -> float:
    """Score each image against the one before it; return the number of items."""
    items = [
        scorer.ScoreItem(
            original=shot.image, edited=other.image, caption=shot.caption, edited_caption=shot.elsewhere
        )
        for shot, other in zip(shots, [*shots[1:], shots[0]], strict=True)
    ]
    return _items(engine.score(scorer.ScoreRequest(items=items)))


def predictions(engine: Any, suite: Suite, shots: list[Shot]) -> float:
    """Ask the suite's first classifier for each image; return the number of items."""
    spec = next(iter((*suite.classifiers.models, *suite.classifiers.zero_shot)))
    known = engine.describe(classifiers.DescribeRequest(classifier=spec)).classes
    images = [shot.image for shot in shots]
    call = classifiers.ClassifyRequest(
        classifier=spec, images=images, classes=known or list(VALUES["object_class"])
    )
    return _items(engine.classify(call))


def _items(answer: Any) -> float:
    for outcome in answer.outcomes:
        outcome.unwrap()
    return float(len(answer.outcomes))


@dataclass(frozen=True)
class Service:
    """How a service is called: ``call`` returns the work done in ``unit``; ``most`` items in one call."""

    call: Callable[[Any, Suite, list[Shot]], float]
    unit: str
    most: int


SERVICES: Mapping[ServiceName, Service] = {
    "captioner": Service(captions, ITEMS, 32),
    "perturber": Service(perturbations, ITEMS, 32),
    "editor": Service(edits, EVALUATIONS, 16),
    "scorer": Service(scores, ITEMS, 64),
    "classifiers": Service(predictions, ITEMS, 64),
}


def deployment(service: ServiceName) -> Any:
    """Return the service's class, whose ``load`` makes its engine."""
    module = importlib.import_module(f"counterpose_services.{service}.deployment")
    return getattr(module, f"{service.capitalize()}Deployment")
