"""Each contestant's predictions for images, computed in this process as the services would."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_miniature.training.classifier_quality import Predictor
from counterpose_miniature.training.rendered import as_tensor
from counterpose_services.classifiers.classifier import Classifier
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry
from evaluation.paths import SUITE_WEIGHTS

from .contestants import Contestant
from .measures import Floats
from .roster import SUITE
from .truth import CLASSES, Images, Predict


@contextmanager
def predicting(one: Contestant) -> Iterator[Predict]:
    """Load a contestant; a zero-shot one by the product's own loader, from its spec."""
    if not one.prompts:
        yield _trained(one)
        return
    # In memory: ten thousand images and their vectors need not be synced to a disk.
    root = f"memory://validation-{uuid.uuid4().hex}"
    store = BlobStore(root)
    registry = ClassifierRegistry(load_suite(SUITE).classifiers, SUITE_WEIGHTS, store, ClassifierOptions())
    try:
        yield _served(registry.load(one.spec).model, store)
    finally:
        fsspec.filesystem("memory").rm(root, recursive=True)


def _trained(one: Contestant) -> Predict:
    network = Predictor(one.folder)

    def predict(images: Images) -> Floats:
        return np.asarray(network(as_tensor(images)).numpy(), dtype=np.float64)

    return predict


def _served(model: Classifier, store: BlobStore) -> Predict:
    over = model.over(CLASSES)

    def predict(images: Images) -> Floats:
        refs = [store.put(encode_raw(image)) for image in images]
        found = [over(outcome.unwrap()) for outcome in model.predict(refs).outcomes]
        return np.stack(found).astype(np.float64)

    return predict
