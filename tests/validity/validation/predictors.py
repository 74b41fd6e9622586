"""What each contestant makes of pictures in this process, as the services would."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import numpy as np

from faultline_core.blobs import BlobStore
from faultline_core.images import encode_raw
from faultline_core.suite import load_suite
from faultline_miniature.training.classifier_quality import Predictor
from faultline_miniature.training.rendered import as_tensor
from faultline_services.classifiers.classifier import Classifier
from faultline_services.classifiers.options import ClassifierOptions
from faultline_services.classifiers.sources import Sources

from .contestants import Contestant
from .measures import Floats
from .roster import SUITE, SUITE_WEIGHTS
from .truth import CLASSES, Pictures, Predict


@contextmanager
def predicting(one: Contestant) -> Iterator[Predict]:
    """Load a contestant; a zero-shot one by the product's own loader, from its spec."""
    if not one.prompts:
        yield _trained(one)
        return
    # In memory: ten thousand pictures and their vectors need not be synced to a disk.
    root = f"memory://validation-{uuid.uuid4().hex}"
    store = BlobStore(root)
    sources = Sources(load_suite(SUITE).classifiers, SUITE_WEIGHTS, store, ClassifierOptions())
    try:
        yield _served(sources.load(one.spec).model, store)
    finally:
        fsspec.filesystem("memory").rm(root, recursive=True)


def _trained(one: Contestant) -> Predict:
    network = Predictor(one.folder)

    def predict(pictures: Pictures) -> Floats:
        return np.asarray(network(as_tensor(pictures)).numpy(), dtype=np.float64)

    return predict


def _served(model: Classifier, store: BlobStore) -> Predict:
    over = model.over(CLASSES)

    def predict(pictures: Pictures) -> Floats:
        refs = [store.put(encode_raw(picture)) for picture in pictures]
        found = [over(outcome.unwrap()) for outcome in model.predict(refs).outcomes]
        return np.stack(found).astype(np.float64)

    return predict
