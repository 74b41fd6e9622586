"""Ways to feed a network its images, by which one that is fed wrongly is told: names, words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PREPARATIONS: Mapping[str, str] = {
    "plain": "values from 0 to 1",
    "imagenet": "ImageNet's mean and deviation",
    "signed": "values from -1 to 1",
    "bytes": "values from 0 to 255",
    "blue-first": "blue before red",
}
"""Each in words; the last one is of any preprocessing, with its channels in the other order."""

NORMALISED: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "plain": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "signed": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "bytes": ((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),
}
"""Mean and deviation of each channel, of values from 0 to 1."""
