"""Retrieval: the images of a user's dataset that are nearest to a shift's prompt with a class's name.

The baseline of the paper's section 4 and A.2 (clip-retrieval), on a dataset in place of LAION.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.scorer import EmbedTextsRequest
from counterpose_core.contract.shift_benchmarks import RetrievalManifest, ShiftBenchmarkConfig
from counterpose_core.errors import ArtifactCorrupt, DatasetEmpty, InvalidRequest
from counterpose_core.images.image_index import FoundImage, ImageIndex
from counterpose_core.text.class_prompts import fill
from counterpose_core.types import BlobRef, Cost
from counterpose_gateway.runs.stores import IndexStore
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.clip import embed_dataset
from counterpose_gateway.summaries.cache import RunCache

INDEX_KIND = "image-index"

KEPT = 4
"""Indices in memory: one of a million images with 1,024 numbers each takes 4 GB, of ten thousand 40 MB."""

NEARLY_EQUAL = 0.999
"""The cosine of two images that count once: copies that were stored again, and no two different scenes."""

_INDICES = RunCache(KEPT)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Search:
    """A search's results, best first, its cost, and the CLIP that computed it, as ``id@revision``.

    ``cost`` includes that of the index if this search had to make it. ``unreadable`` images of the
    dataset were left out, with the reason. ``alike`` maps each image that is nearly equal to a better result
    to that one.
    """

    found: list[FoundImage]
    cost: Cost
    checkpoint: str
    unreadable: dict[BlobRef, str]
    alike: dict[BlobRef, BlobRef]


class CachedIndex:
    """An index and the cost of making it, which is charged once."""

    def __init__(self, index: ImageIndex, cost: Cost) -> None:
        self.index = index
        self._cost = cost

    def take_cost(self) -> Cost:
        """Return the cost of making the index on the first call, and zero afterwards."""
        cost, self._cost = self._cost, Cost()
        return cost


async def retrieval_manifest(
    dataset: Dataset, sources: Sequence[Source], store: IndexStore
) -> RetrievalManifest:
    """Record the images of a dataset, once for a benchmark.

    Raises:
        DatasetEmpty: the dataset has no image.
    """
    images = sorted({source.image for source in sources})
    if not images:
        raise DatasetEmpty(f"dataset {dataset.name!r} holds no image to retrieve", pointer="/retrieval")
    ref = await asyncio.to_thread(store.put, json.dumps(images).encode())
    return RetrievalManifest(digest=dataset.digest, images=ref, count=len(images))


async def search_images(
    config: ShiftBenchmarkConfig,
    shift: str,
    class_name: str,
    count: int,
    services: Services,
    store: IndexStore,
    *,
    indices: RunCache = _INDICES,
) -> Search:
    """Find the ``count`` images nearest to a shift's prompt with the class's name, or all where fewer.

    The first process that searches embeds the dataset; the index is kept in the store and in the
    process.

    Raises:
        InvalidRequest: the benchmark retrieves nothing, has no such shift, or the index is of another CLIP or
            state of the dataset.
        PromptTooLong: the prompt is too long for CLIP's text encoder.
        DatasetEmpty: no image can be read.
        BackendError: the scorer is down, or changed its CLIP during the call.
    """
    manifest = config.retrieval
    if manifest is None:
        raise InvalidRequest("the benchmark was planned without a dataset to retrieve from")
    prompts = {condition.name: condition.prompt for condition in config.shifts}
    if shift not in prompts:
        raise InvalidRequest(f"the benchmark has no shift {shift!r}")
    asked = EmbedTextsRequest(texts=[fill(prompts[shift], class_name)])
    answer = await services.scorer.embed_texts(asked)
    query = answer.outcomes[0].unwrap().vector
    checkpoint = f"{answer.model.id}@{answer.model.revision}"
    key = cache_key(manifest=manifest.images, digest=manifest.digest, checkpoint=checkpoint)
    cached = await indices.get_async(key, lambda: _index(key, manifest, checkpoint, services, store))
    cached.index.require(checkpoint=checkpoint, dataset_digest=manifest.digest)
    # Not in the event loop: a million images take most of a second.
    nearest = await asyncio.to_thread(cached.index.nearest, query, count)
    found = [each.image for each in nearest]
    alike = await asyncio.to_thread(cached.index.alike, found, NEARLY_EQUAL)
    cost = answer.cost + cached.take_cost()
    return Search(nearest, cost, checkpoint, dict(cached.index.description.unreadable), alike)


async def _index(
    key: str, manifest: RetrievalManifest, checkpoint: str, services: Services, store: IndexStore
) -> CachedIndex:
    """Take the index from the store, or make it and store it for the other processes."""
    known = await asyncio.to_thread(_stored, key, manifest.images, store)
    if known is not None:
        return CachedIndex(known, Cost())
    images: list[BlobRef] = json.loads(await asyncio.to_thread(store.get, manifest.images))
    embedded = await embed_dataset(images, checkpoint, services.scorer)
    if embedded.unreadable:
        _logger.warning("%d images of %d cannot be read", len(embedded.unreadable), len(images))
    index = await asyncio.to_thread(
        ImageIndex.build,
        embedded.features,
        checkpoint=checkpoint,
        dataset_digest=manifest.digest,
        unreadable=embedded.unreadable,
    )
    await asyncio.to_thread(_store_index, key, manifest.images, index, store)
    return CachedIndex(index, embedded.cost)


def _stored(key: str, listed: BlobRef, store: IndexStore) -> ImageIndex | None:
    ref = store.recall(INDEX_KIND, key, of=listed)
    try:
        return None if ref is None else ImageIndex.from_bytes(store.get(ref))
    except ArtifactCorrupt as error:
        # The index can be made again, and storing it again repairs the copy.
        _logger.warning("the index of images %s is built again: %s", key, error.detail)
        return None


def _store_index(key: str, listed: BlobRef, index: ImageIndex, store: IndexStore) -> None:
    store.remember(INDEX_KIND, key, store.put(index.to_bytes()), of=listed)
