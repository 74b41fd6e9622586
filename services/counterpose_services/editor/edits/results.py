"""The results of a call's items: first latents, then images in the store, or an error for each item."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.editor import ImageSafety
from counterpose_core.editing.denoiser import raise_if_cancelled
from counterpose_core.editing.sweep import Fork
from counterpose_core.errors import CounterposeError, NumericalFailure, ResourceExhausted
from counterpose_core.images.codecs import Pixels, encode_raw
from counterpose_core.types import BlobRef, Cost, Decoder
from counterpose_services.batching.outcomes import failure
from counterpose_services.editor.call import EngineCall, with_share_of_time

Item = TypeVar("Item")
Image = TypeVar("Image", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class ItemLatents:
    """Latents (N, C, h, w) of an item's images, their cost, and the forks of its edit."""

    latents: Tensor
    cost: Cost = field(default_factory=Cost)
    forks: Sequence[Fork] = ()


ItemResult = ItemLatents | CounterposeError
"""The result of an item; a call knows items by their positions in the request."""


@dataclass(frozen=True)
class StoredImages:
    """An item's images in the store, and their cost."""

    refs: list[BlobRef]
    cost: Cost
    safety: Sequence[ImageSafety | None] = ()
    """What the safety checker says of each image; null where there is none."""


@dataclass(frozen=True)
class Stored:
    """The result of each item, in the order of the request, and the total cost apart from evaluations."""

    items: list[StoredImages | CounterposeError]
    spent: Cost

    def outcomes(self, value: Callable[[int, StoredImages], Value]) -> list[Outcome[Value]]:
        """Return an outcome for each item; ``value`` makes the value from the item's position and images."""
        return [
            failure(item) if isinstance(item, CounterposeError) else Outcome[Value](value=value(index, item))
            for index, item in enumerate(self.items)
        ]


def refusals(
    items: Sequence[Item], check: Callable[[Item], object], error: type[CounterposeError] = CounterposeError
) -> dict[int, ItemResult]:
    """Return the items that ``check`` refuses with an ``error``; any other exception is raised."""
    refused = dict[int, ItemResult]()
    for index, item in enumerate(items):
        try:
            check(item)
        except error as problem:
            refused[index] = problem
    return refused


def out_of_memory(index: int) -> ResourceExhausted:
    """Return the error of an item of which not even one sample fits in memory."""
    return ResourceExhausted(f"item {index} alone needs more memory than there is")


def charge_once(
    made: Mapping[int, ItemLatents], images: Mapping[int, Image], costs: Mapping[Image, Cost]
) -> dict[int, ItemLatents]:
    """Add the cost of each image to the first of its items.

    Args:
        made: the results of the items, in the order in which they are charged.
        images: the image of each item.
        costs: the cost of each image that was not cached.
    """
    charged, unpaid = dict[int, ItemLatents](), dict(costs)
    for index, item in made.items():
        charged[index] = replace(item, cost=item.cost + unpaid.pop(images[index], Cost()))
    return charged


def require_finite(results: Mapping[int, ItemResult], precision: str) -> dict[int, ItemResult]:
    """Replace latents that are not finite by a NumericalFailure."""
    return {
        index: item
        if isinstance(item, CounterposeError) or bool(torch.isfinite(item.latents).all())
        else NumericalFailure(f"the latents of item {index} are not finite in {precision}")
        for index, item in results.items()
    }


def store_images(
    call: EngineCall,
    results: Mapping[int, ItemResult],
    decoder: Decoder,
    spent: Cost,
    finish: Callable[[int, Pixels], Pixels] = lambda _, image: image,
) -> Stored:
    """Decode the latents of all items in batches that fit, and store the images.

    Args:
        call: the current call.
        results: the result of every item of the request, by its position.
        decoder: which autoencoder decodes.
        spent: the cost of the call so far apart from evaluations; decoding is added to it.
        finish: makes of an item's decoded image the one that is stored.
    """
    results = require_finite(results, call.pipeline.denoiser.precision)
    decoded, too_large = _decode(call, results, decoder)
    flops = call.pipeline.flops
    spent += flops.decoding(sum(map(len, decoded.values())), decoder)
    whole = call.cost(spent)
    items: list[StoredImages | CounterposeError] = []
    for index in range(len(results)):
        result = out_of_memory(index) if index in too_large else results[index]
        if isinstance(result, ItemLatents):
            images = [finish(index, image) for image in decoded[index]]
            refs = [call.store.put(encode_raw(image)) for image in images]
            cost = flops.evaluation.priced(result.cost + flops.decoding(len(refs), decoder))
            safety = [None] * len(images) if call.safety is None else call.safety.judge(images)
            items.append(StoredImages(refs, with_share_of_time(cost, whole, len(results)), safety))
        else:
            items.append(result)
    return Stored(items, spent)


def _decode(
    call: EngineCall, results: Mapping[int, ItemResult], decoder: Decoder
) -> tuple[dict[int, list[Pixels]], set[int]]:
    """Return the images of each item, and the items of which a single image does not fit in memory."""
    made = {index: item for index, item in results.items() if isinstance(item, ItemLatents)}

    def work(batch: Sequence[tuple[int, Tensor]]) -> list[tuple[int, Pixels]]:
        raise_if_cancelled(call.cancelled)
        decoded = call.pipeline.codec.decode(torch.stack([latents for _, latents in batch]), decoder)
        return [(index, image) for (index, _), image in zip(batch, decoded, strict=True)]

    rows = [(index, latents) for index, item in made.items() for latents in item.latents]
    done = call.sizers.of(f"decode {decoder}").run(rows, work)
    images: dict[int, list[Pixels]] = {index: [] for index in made}
    for index, image in chain.from_iterable(done.results):
        images[index].append(image)
    return images, {index for index, _ in done.too_large}
