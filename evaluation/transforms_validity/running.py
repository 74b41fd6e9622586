"""Runs a stress test of operations in this process: the product's plan, work and summary over its engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import fsspec
import numpy as np

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.contract.transforms import TransformChoice, TransformSummary
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.services.ports import Services
from counterpose_miniature.world import DATASET, Scene
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from evaluation.in_process import HeldLedger, context_of, work_off
from evaluation.paths import SUITE_WEIGHTS

from .images import SIDE, photograph
from .planted import CLASSES, SUITE, TESTED, Taught
from .truth import start_of

SIZES = (96, 480)
"""Images of a run: for the whole model, and, at 60 a class, for single classes."""
_BLOCK = 1000
"""Indices of validation scenes for the images of one classifier."""


@dataclass
class _Classifiers:
    engine: ClassifiersEngine

    async def list_classifiers(self) -> ClassifierList:
        return self.engine.list_classifiers()

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        return self.engine.describe(request)

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        return self.engine.classify(request)


def scenes_of(one: Taught, size: int) -> list[Scene]:
    """The scenes of a classifier's own, equally many of each class; the fewer are among the more."""
    first = start_of(one.seed) + one.number * _BLOCK
    return list(balanced_scenes(VALIDATION, DATASET, size // len(CLASSES), first))


def stress_test(one: Taught, size: int, models: Path) -> TransformSummary:
    """Test a classifier of the folder ``models`` as a user of the suite does, at the suite's levels."""
    root = f"memory://operations-{uuid4().hex}"
    store, suite = BlobStore(root), load_suite(SUITE)
    # In memory: an answer to each of a hundred thousand images need not be synced to a disk.
    try:
        options = ClassifierOptions(models_folder=models)
        engine = ClassifiersEngine.load(suite.classifiers, SUITE_WEIGHTS, store, options)
        absent = cast(Any, None)
        services = Services(absent, absent, absent, absent, cast(Any, _Classifiers(engine)))
        name = f"{one.name}-{size}"
        ledger = HeldLedger({name: _sources(scenes_of(one, size), store)})
        context = context_of(services, store, suite, ledger)
        create = StressTestCreate(
            dataset=name,
            classifiers=[f"local:{one.name}"],
            seed=one.seed,
            transforms=TransformChoice(operations=list(TESTED)),
        )
        ended = work_off(STRESS_TEST, create, context)
        told = STRESS_TEST.summarize(ended.run, ended.items, None, cast(Any, context)).transforms
    finally:
        fsspec.filesystem("memory").rm(root, recursive=True)
    assert told is not None
    return cast(TransformSummary, told)


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
