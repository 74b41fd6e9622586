"""What a classifier's probabilities become in an answer."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.classifiers import Prediction
from counterpose_services.models.cached_forward import Floats

TOP = 5


def prediction(odds: Floats, *, features: Floats | None = None, pixels: str | None = None) -> Prediction:
    """Return the answer of probabilities (n,): ``pixels`` is the digest of an image made of a recipe."""
    return Prediction(
        probabilities=odds.tolist(),
        # Stable: of two equal classes, the earlier one comes first on every machine.
        top=np.argsort(-odds, kind="stable")[:TOP].tolist(),
        features=None if features is None else features.tolist(),
        pixels=pixels,
    )
