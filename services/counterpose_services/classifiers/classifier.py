"""The interface of a classifier under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.images.codecs import Pixels
from counterpose_services.classifiers.class_map import NO_LABEL_MAP, LabelMap
from counterpose_services.models.cached_forward import Arrays, Floats, PassResult

TRIAL_IMAGE: Pixels = np.full((96, 64, 3), 128, np.uint8)
"""A grey image, by which a network is tried as it is loaded."""

OverClasses = Callable[[Arrays], Floats]
"""From an image's arrays to probabilities over the requested classes (n,)."""


class Classifier(Protocol):
    """A loaded classifier.

    >>> found = classifier.predict(images)
    >>> classifier.over(["boat", "tram"])(found.outcomes[0].unwrap())
    """

    @property
    def identity(self) -> ModelIdentity: ...

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Return the function for these classes; raises ClassMapMismatch if one is unknown.

        ``label_map`` is the run's, which precedes that of the services, class by class.
        """

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Compute each image's arrays, including ``features`` if the model has any.

        ``prepared`` names another preparation of the images than its own; raises InvalidRequest where it has
        no such one.
        """
