"""Pictures of a class under a shift that nobody made: the nearest to the prompt in a folder of the user's.

The baseline of the paper's section 4 and A.2 (clip-retrieval), on a dataset in place of LAION.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from faultline_core.blobs import cache_key
from faultline_core.class_prompts import fill
from faultline_core.contract.datasets import Dataset, Source
from faultline_core.contract.scorer import EmbedTextsRequest
from faultline_core.contract.shift_benchmarks import RetrievalManifest, ShiftBenchmarkConfig
from faultline_core.errors import ArtifactCorrupt, BadBackendOutput, DatasetEmpty, InvalidRequest
from faultline_core.picture_index import FoundPicture, PictureIndex
from faultline_core.types import BlobRef, Cost
from faultline_gateway.ports import Services
from faultline_gateway.workflows.attempt import Store
from faultline_gateway.workflows.embedded_folder import embed_folder
from faultline_gateway.workflows.indices import Indices

INDEX_KIND = "picture-index"

_INDICES = Indices()
_logger = logging.getLogger(__name__)


class IndexStore(Store, Protocol):
    """Where pictures and indices lie, and which index is of what; `faultline_core.blobs.BlobStore` is one.

    store.remember("picture-index", key, store.put(index.to_bytes()))
    """

    def put(self, data: bytes) -> str:
        """Store ``data`` durably and return its digest."""
        ...

    def remember(self, kind: str, key: str, ref: str) -> None:
        """Note that the inputs hashed to ``key`` gave the blob ``ref``."""
        ...

    def recall(self, kind: str, key: str) -> str | None:
        """Return the blob noted for ``key``, or None where it is gone."""
        ...


@dataclass(frozen=True)
class Search:
    """What a search found, best first, what it took, and the CLIP that answered, as ``id@revision``.

    ``cost`` includes that of the index where this search had to make it. ``unreadable`` pictures of the
    dataset were left out, with the reason.
    """

    found: list[FoundPicture]
    cost: Cost
    checkpoint: str
    unreadable: dict[BlobRef, str]


async def retrieval_manifest(
    dataset: Dataset, sources: Sequence[Source], store: IndexStore
) -> RetrievalManifest:
    """Write down what pictures a dataset has, once for a benchmark.

    Raises:
        DatasetEmpty: it has none.
    """
    pictures = sorted({source.image for source in sources})
    if not pictures:
        raise DatasetEmpty(f"dataset {dataset.name!r} holds no picture to retrieve", pointer="/retrieval")
    ref = await asyncio.to_thread(store.put, json.dumps(pictures).encode())
    return RetrievalManifest(digest=dataset.digest, pictures=ref, count=len(pictures))


async def search_pictures(
    config: ShiftBenchmarkConfig,
    shift: str,
    class_name: str,
    count: int,
    services: Services,
    store: IndexStore,
    *,
    indices: Indices = _INDICES,
) -> Search:
    """Find the ``count`` pictures nearest to a shift's prompt with the class's name, or all where fewer.

    The dataset is embedded at the first search, by whichever process comes first; its index is kept in the
    store, and in the process.

    Raises:
        InvalidRequest: the benchmark retrieves nothing, has no such shift, or the index is of another CLIP or
            state of the dataset.
        PromptTooLong: CLIP's text encoder does not read so much.
        DatasetEmpty: no picture can be read.
        BackendError: the scorer is down, or changes in between.
    """
    manifest = config.retrieval
    if manifest is None:
        raise InvalidRequest("the benchmark was planned without a dataset to retrieve from")
    prompts = {each.name: each.prompt for each in config.shifts}
    if shift not in prompts:
        raise InvalidRequest(f"the benchmark has no shift {shift!r}")
    asked = EmbedTextsRequest(texts=[fill(prompts[shift], class_name)])
    answer = await services.scorer.embed_texts(asked)
    if len(answer.outcomes) != 1:
        raise BadBackendOutput(f"{len(answer.outcomes)} outcomes were answered for one text")
    query = answer.outcomes[0].unwrap().vector
    checkpoint = f"{answer.model.id}@{answer.model.revision}"
    made = await indices.of(
        cache_key(manifest=manifest.pictures, digest=manifest.digest, checkpoint=checkpoint),
        lambda key: _index(key, manifest, checkpoint, services, store),
    )
    made.index.require(checkpoint=checkpoint, dataset_digest=manifest.digest)
    # Not in the loop: a million pictures take most of a second.
    found = await asyncio.to_thread(made.index.nearest, query, count)
    cost = answer.cost + made.claim_cost()
    return Search(found, cost, checkpoint, dict(made.index.description.unreadable))


async def _index(
    key: str, manifest: RetrievalManifest, checkpoint: str, services: Services, store: IndexStore
) -> tuple[PictureIndex, Cost]:
    """Take the index from the store, or make it and leave it there for the other processes."""
    known = await asyncio.to_thread(_stored, key, store)
    if known is not None:
        return known, Cost()
    pictures: list[BlobRef] = json.loads(await asyncio.to_thread(store.get, manifest.pictures))
    embedded = await embed_folder(pictures, checkpoint, services.scorer)
    if embedded.unreadable:
        _logger.warning("%d pictures of %d cannot be read", len(embedded.unreadable), len(pictures))
    index = await asyncio.to_thread(
        PictureIndex.build,
        embedded.features,
        checkpoint=checkpoint,
        dataset_digest=manifest.digest,
        unreadable=embedded.unreadable,
    )
    await asyncio.to_thread(_store_index, key, index, store)
    return index, embedded.cost


def _stored(key: str, store: IndexStore) -> PictureIndex | None:
    ref = store.recall(INDEX_KIND, key)
    try:
        return None if ref is None else PictureIndex.from_bytes(store.get(ref))
    except ArtifactCorrupt as error:
        # It can be made again, and putting it again mends the copy.
        _logger.warning("the index of pictures %s is made anew: %s", key, error.detail)
        return None


def _store_index(key: str, index: PictureIndex, store: IndexStore) -> None:
    store.remember(INDEX_KIND, key, store.put(index.to_bytes()))
