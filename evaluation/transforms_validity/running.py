"""Runs stress tests of operations in this process: the product's plan, work and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
    Prediction,
)
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.contract.transforms import TransformChoice, TransformSummary
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.services.ports import Services
from counterpose_miniature.world import DATASET, Scene
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from evaluation.in_process import HeldLedger, context_of, work_off

from .images import SIDE, as_input, photograph
from .planted import CLASSES, SUITE, TESTED
from .training import Features, Head, Trunk
from .truth import start_of

SETS = 6
"""Sets of images, each of a few classifiers, which share what is made of them."""
_BLOCK = 1000
"""Indices of validation scenes for one set."""
_TOP = 5
CHOICE = TransformChoice(operations=list(TESTED))
"""All operations at the suite's levels."""


@dataclass(eq=False)
class SharedAnswers:
    """The service of classifiers that share a trunk: each image is made and seen by the trunk once.

    An image is made by the services' own code from its recipe, and answered as their engine does
    (`evaluation/tests/integration/transforms_validity`).
    """

    trunk: Trunk
    heads: Mapping[str, Head]
    store: BlobStore
    _seen: dict[str, Features] = field(default_factory=dict)

    async def list_classifiers(self) -> ClassifierList:
        """List them."""
        return ClassifierList(classifiers=list(map(_described, self.heads)))

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe one; there is no other preparation to try."""
        return _described(request.classifier)

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Answer each image among the classes of the request."""
        missing = [ref for ref in dict.fromkeys(request.images) if ref not in self._seen]
        if missing:
            pixels = [as_input(shown_image(ref, self.store.get)) for ref in missing]
            self._seen.update(zip(missing, self.trunk(pixels), strict=True))
        features = np.stack([self._seen[ref] for ref in request.images])
        rows = self.heads[request.classifier].probabilities(features)
        order = [CLASSES.index(name) for name in request.classes]
        outcomes = [Outcome[Prediction](value=_prediction(row[order])) for row in rows]
        return ClassifyResponse(outcomes=outcomes, model=ModelIdentity(id="shared", revision="1"))


def _described(spec: str) -> ClassifierDescription:
    return ClassifierDescription(name=spec, spec=spec, classes=list(CLASSES))


def _prediction(odds: NDArray[np.float32]) -> Prediction:
    return Prediction(probabilities=odds.tolist(), top=np.argsort(-odds, kind="stable")[:_TOP].tolist())


def scenes_of(seed: int, images: int, size: int) -> list[Scene]:
    """The scenes of a set of images, equally many of each class; the fewer are among the more."""
    first = start_of(seed) + images * _BLOCK
    return list(balanced_scenes(VALIDATION, DATASET, size // len(CLASSES), first))


class ImageSet:
    """One set of images, in memory: a hundred thousand of them need not be synced to a disk."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number
        self.store = BlobStore(f"memory://operations-{uuid4().hex}")

    def stress_test(
        self, spec: str, size: int, classifiers: Any, choice: TransformChoice = CHOICE
    ) -> TransformSummary:
        """Test a classifier of a service on so many images as a user does."""
        absent, name, suite = cast(Any, None), f"operations-{size}", load_suite(SUITE)
        sources = _sources(scenes_of(self._seed, self._number, size), self.store)
        services = Services(absent, absent, absent, absent, classifiers)
        context = context_of(services, self.store, suite, HeldLedger({name: sources}))
        create = StressTestCreate(
            dataset=name,
            classifiers=[spec],
            seed=self._seed,
            transforms=choice,
        )
        ended = work_off(STRESS_TEST, create, context)
        told = STRESS_TEST.summarize(ended.run, cast(Sequence[Item], ended.items), None, context).transforms
        assert isinstance(told, TransformSummary)
        return told


def _sources(scenes: Sequence[Scene], store: BlobStore) -> list[Source]:
    return [_source(number, scene, store) for number, scene in enumerate(scenes)]


def _source(number: int, scene: Scene, store: BlobStore) -> Source:
    shown = photograph(scene)
    image, label = store.put(encode_raw(shown.pixels)), scene.object_class
    return Source(
        # As the ledger makes it: the content and the label.
        id=cache_key(image=image, label=label, occurrence=0),
        image=image,
        label=label,
        filename=f"{number:05}.png",
        width=SIDE,
        height=SIDE,
        mask=store.put(encode_raw(np.repeat(shown.matte[:, :, None], 3, axis=2))),
    )
