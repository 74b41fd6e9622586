"""A network's forward pass over stored images, prepared as its files say, or in another way to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.preparations import NORMALISED, PREPARATIONS
from counterpose_core.errors import InvalidRequest
from counterpose_core.image_recipes import MadeImages
from counterpose_services.models.cached_forward import Arrays, CachedForward, PassResult
from counterpose_services.models.image_processors import Preparation

_SIDE = 64
_NEAR = 0.02
"""Means and deviations that differ by less are one normalisation: libraries round ImageNet's differently."""


class PreparedForward:
    """Computes named float32 arrays for stored images, cached by image, weights and preparation.

    ``prepare`` is the network's own preprocessing, ``inputs`` names all that the arrays depend on beside it.
    """

    def __init__(
        self,
        store: BlobStore,
        *,
        prepare: Preparation,
        forward: Callable[[list[Tensor]], Sequence[Arrays]],
        inputs: Mapping[str, object],
        batch: int,
    ) -> None:
        self._store, self._prepare, self._forward = store, prepare, forward
        self._inputs, self._batch = inputs, batch

    def __call__(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return the arrays of each image, in order; ``prepared`` is a name of `PREPARATIONS`, None its own.

        Raises:
            InvalidRequest: there is no such preparation, or the network's own takes no other numbers.
        """
        prepare, inputs = self._prepare, self._inputs
        if prepared is not None:
            prepare, inputs = alternative(prepare, prepared), {**inputs, "prepared": prepared}
        made = MadeImages()
        forward = CachedForward(
            self._store,
            "prediction",
            read=lambda ref: prepare(made(ref, self._store.get)),
            forward=self._forward,
            inputs=inputs,
            batch=self._batch,
        )
        return forward(images)._replace(digests=made.digests)


def alternative(prepare: Preparation, name: str) -> Preparation:
    """Put another normalisation, or blue before red, in the place of a network's own.

    Each library prepares by numbers of its own files, so these are measured: on a black and a white image.

    Raises:
        InvalidRequest: there is no preparation ``name``, or black and white look alike to the network's own.
    """
    if name == "blue-first":
        return lambda pixels: prepare(np.ascontiguousarray(pixels[..., ::-1]))
    if name not in NORMALISED:
        raise InvalidRequest(
            f"there is no preparation {name!r}; there are {', '.join(PREPARATIONS)}", pointer="/prepared"
        )
    black, white = (_middle(prepare, value) for value in (0, 255))
    if bool((black == white).any()):
        raise InvalidRequest(
            "black and white look alike as this classifier prepares its images", pointer="/prepared"
        )
    mean, deviation = (torch.tensor(each).view(-1, 1, 1) for each in NORMALISED[name])
    return lambda pixels: ((prepare(pixels) - black) / (white - black) - mean) / deviation


def _middle(prepare: Preparation, value: int) -> Tensor:
    # In the middle: some preprocessing pads an image with a colour of its own.
    prepared = prepare(np.full((_SIDE, _SIDE, 3), value, np.uint8))
    return prepared[:, prepared.shape[1] // 2, prepared.shape[2] // 2].view(-1, 1, 1)


def alternatives(mean: object, deviation: object) -> dict[str, str]:
    """The preparations beside that of three numbers each, in words by name; all of them if these are none."""
    return {
        name: words
        for name, words in PREPARATIONS.items()
        if name not in NORMALISED
        or not all(_is_near(*pair) for pair in zip(NORMALISED[name], (mean, deviation), strict=True))
    }


def _is_near(known: Sequence[float], given: object) -> bool:
    numbers = given if isinstance(given, list | tuple) and len(given) == len(known) else ()
    return bool(numbers) and all(
        isinstance(number, int | float) and abs(number - one) < _NEAR * one + 1e-6
        for number, one in zip(numbers, known, strict=True)
    )


def refuse_alternative(prepared: str | None, identity: str) -> None:
    """Refuse another preparation of what prepares its images elsewhere.

    Raises:
        InvalidRequest: there is one to refuse.
    """
    if prepared is not None:
        raise InvalidRequest(
            f"{identity!r} prepares its images itself, not by {prepared!r}", pointer="/prepared"
        )
