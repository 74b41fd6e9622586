"""A remote classifier over the Open Inference Protocol v2 (KServe, Triton)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import BadBackendOutput, ClassMapMismatch, UnknownModel
from counterpose_core.image_recipes import MadeImages
from counterpose_services.batching.outcomes import settle
from counterpose_services.classifiers.class_map import (
    NAME_THEM,
    NO_LABEL_MAP,
    HeadClasses,
    LabelMap,
    require_several,
)
from counterpose_services.classifiers.classifier import OverClasses
from counterpose_services.classifiers.open_inference import OpenInference, Prepared, Row
from counterpose_services.classifiers.preparations import refuse_alternative
from counterpose_services.models.cached_forward import Arrays, Floats, PassResult
from counterpose_services.outbound.hosts import require_host

ROW_SUM_TOLERANCE = 1e-3
"""Rows whose sum is this close to 1 are probabilities; others are logits."""
FEWEST_SCORES = 8
"""Numbers of a batch from which a sigmoid is told."""


_PART = r"/[A-Za-z0-9][\w.-]*"
_MODEL_PATH = re.compile(rf"({_PART})*/v2/models{_PART}(/versions{_PART})?/?")


def require_allowed(url: str, hosts: Sequence[str]) -> None:
    """Raise UnknownModel unless ``url`` names a model on one of ``hosts``, given with or without a port."""
    require_host(url, hosts, use="remote classifiers", setting="COUNTERPOSE_SERVICES_OIP_HOSTS")
    # The list allows a host to serve models; callers must not reach its other paths.
    if not _MODEL_PATH.fullmatch(urlsplit(url).path):
        raise UnknownModel(f"{url!r} does not name a model; its path must end in /v2/models/<name>")


class RemoteClassifier:
    """Predictions of a remote model; never cached, because the model may change at any time.

    A model that lists no labels must have exactly the requested classes, in the requested order.
    """

    size_bytes = 0

    def __init__(
        self, remote: OpenInference, identity: str, *, label_map: LabelMap, store: BlobStore, batch: int
    ) -> None:
        self._remote = remote
        self._label_map, self._store, self._batch = label_map, store, batch
        revision = hashlib.sha256(self._remote.metadata.model_dump_json().encode()).hexdigest()
        self.identity = ModelIdentity(id=identity, revision=revision)

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Select the labels of these classes."""
        labels = self._remote.metadata.labels
        if labels is not None:
            return self._labelled(labels, classes, label_map)

        def as_they_come(arrays: Arrays) -> Floats:
            head = arrays["probabilities"]
            if len(head) != len(classes):
                raise ClassMapMismatch(
                    f"{self.identity.id!r} lists no labels and has {len(head)} classes, not the "
                    f"{len(classes)} of the dataset: {NAME_THEM}"
                )
            return head

        return as_they_come

    def _labelled(self, labels: Sequence[str], classes: Sequence[str], label_map: LabelMap) -> OverClasses:
        head_classes = HeadClasses(tuple((label,) for label in labels))
        selection = head_classes.selection(classes, {**self._label_map, **label_map})

        def by_label(arrays: Arrays) -> Floats:
            head = arrays["probabilities"]
            if len(head) != len(labels):
                raise BadBackendOutput(
                    f"{self.identity.id!r} lists {len(labels)} labels but returned {len(head)} numbers"
                )
            return selection(head)

        return by_label

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return ``probabilities`` over the remote head for each image."""
        refuse_alternative(prepared, self.identity.id)

        made = MadeImages()

        def read(ref: str) -> Prepared:
            return self._remote.prepare(made(ref, self._store.get))

        outcomes = settle(
            images,
            prepare=read,
            run=self._infer,
            finish=lambda _, row: _arrays(row, self.identity.id),
            batch=self._batch,
        )
        return PassResult(outcomes, len(images), made.digests)

    def _infer(self, images: list[Prepared]) -> list[Row]:
        answers = self._remote.infer(images)
        rows = [answer.numbers for answer in answers if answer.error is None]
        if self._remote.metadata.parameters.get("output") != "logits":
            _refuse_lone_scores(rows, self.identity.id)
        return answers


def _refuse_lone_scores(rows: list[Floats], name: str) -> None:
    """Refuse a batch of scores that judge each class alone, as sigmoids do.

    Each number lies between 0 and 1, and no row adds up to 1. Eight logits are hardly ever so.
    """
    numbers = np.concatenate(rows) if rows else np.zeros(0)
    lone = len(numbers) >= FEWEST_SCORES and bool(((numbers >= 0.0) & (numbers <= 1.0)).all())
    if lone and not any(abs(float(row.sum()) - 1.0) <= ROW_SUM_TOLERANCE for row in rows):
        raise BadBackendOutput(
            f"{name!r} returned scores between 0 and 1 that do not add up to 1, as those of a sigmoid, which "
            "judge each class alone; serve logits or probabilities, or say 'output': 'logits' in the "
            "parameters of the model's metadata"
        )


def _arrays(answer: Row, name: str) -> Arrays:
    if answer.error is not None:
        raise BadBackendOutput(f"{name!r} failed on this image: {answer.error}")
    row = answer.numbers
    require_several(len(row), name)
    if not np.isfinite(row).all():
        raise BadBackendOutput(f"{name!r} returned numbers that are not finite")
    if row.min() >= 0 and abs(float(row.sum()) - 1.0) <= ROW_SUM_TOLERANCE:
        return {"probabilities": row}
    # Subtract the largest, or logits above 88 overflow in float32.
    odds = np.exp(row - row.max())
    return {"probabilities": (odds / odds.sum()).astype(np.float32)}
