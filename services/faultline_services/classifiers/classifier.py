"""What a classifier under test is to the engine, and the cache key of its predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from faultline_core.contract.base import ModelIdentity
from faultline_services.models.cached_forward import Arrays, Floats, PassResult

OverClasses = Callable[[Arrays], Floats]
"""From what was computed of an image to probabilities over the asked classes (n,)."""


class Classifier(Protocol):
    """A loaded classifier.

    >>> found = classifier.predict(images)
    >>> classifier.over(["boat", "tram"])(found.outcomes[0].unwrap())
    """

    @property
    def identity(self) -> ModelIdentity: ...

    def over(self, classes: Sequence[str]) -> OverClasses:
        """Prepare the choice of classes; raises ClassMapMismatch where one is unknown."""
        ...

    def predict(self, images: Sequence[str]) -> PassResult:
        """Compute each image's arrays; ``features`` among them if the model has any."""
        ...
