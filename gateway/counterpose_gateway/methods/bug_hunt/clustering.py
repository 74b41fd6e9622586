"""Clusters of a classifier's failures: planned as items, computed by workers, read by later stages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

import numpy as np

from counterpose_core.blobs import cache_key
from counterpose_core.bug_hunt.clusters import by_size, cluster_failures
from counterpose_core.contract.bug_hunts import HuntInstruction, HuntResult
from counterpose_core.errors import CounterposeError
from counterpose_core.images.clip_metrics import Vectors
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.steps.clip import embed_images, require_one_space, unit_vector

MOST_FAILURES = 256
"""Failures of a classifier that are clustered: many more than are captioned."""
_REFERENCE = 64


def plan_clusters(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan one item for the failures of each label and classifier, if they are clustered by features.

    Not before images of edited captions, where any are wanted.
    """
    has_all = hunt.record.has("varied") or not hunt.config.shares.varied
    if hunt.request.clusters != "features" or not has_all:
        return
    slot = 0
    for label in hunt.request.labels:
        for classifier in hunt.request.classifiers:
            counted = hunt.record.counted_explored(label, classifier)
            if not counted.failures or not counted.successes:
                continue
            failures = counted.failures[:MOST_FAILURES]
            told = HuntInstruction(
                phase="clusters",
                classifiers=[classifier],
                images=_images(failures),
                answers=[answer_of(item, classifier) for item in failures],
                reference=_images(counted.successes[:_REFERENCE]),
            )
            key = cache_key(clusters=label, classifier=classifier)
            yield PlannedItem(
                item_key=key,
                ordinal=0,
                kind="clustering",
                item_group=key,
                source_image=hunt.config.examples[label],
                label=label,
                slot=slot,
                instruction=told.model_dump(mode="json", exclude_defaults=True),
            )
            slot += 1


async def cluster(calls: Calls, item: LeasedItem, told: HuntInstruction) -> HuntResult:
    """Cluster the failures by their answers and by CLIP's features; those that it cannot read have none.

    Raises:
        BackendError: the scorer failed as a whole.
    """
    images = [*told.images, *told.reference]
    vectors: list[Vectors | None] = []
    for outcome in await embed_images(calls, images):
        try:
            vectors.append(unit_vector(outcome))
        except CounterposeError:
            vectors.append(None)
    read = [vector for vector in vectors if vector is not None]
    require_one_space(*read)
    own = [place for place in range(len(told.images)) if vectors[place] is not None]
    reference = [vector for vector in vectors[len(told.images) :] if vector is not None]
    answers = [told.answers[place] for place in own]
    features = np.array([vectors[place] for place in own])
    found = await asyncio.to_thread(cluster_failures, answers, features, np.array(reference)) if own else []
    clusters = dict(zip((told.images[place] for place in own), found, strict=True))
    return HuntResult(image=item.source_image, clusters=clusters)


def clusters_of(hunt: Hunt, label: str, classifier: str) -> list[list[HuntedItem]]:
    """Return the failures of a classifier in clusters, the largest first, or all in one."""
    failures = hunt.record.counted_explored(label, classifier).failures
    if hunt.request.clusters == "none":
        return [failures] if failures else []
    by_features = _by_features(hunt, label, classifier)
    # Answers alone, where features are not asked for or an image has none.
    keys = [
        (answer_of(item, classifier), by_features.get(image, -1))
        for item, image in zip(failures, _images(failures), strict=True)
    ]
    numbers = by_size(keys)
    clusters: list[list[HuntedItem]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for item, number in zip(failures, numbers, strict=True):
        clusters[number].append(item)
    return clusters


def in_turns(clusters: Sequence[Sequence[HuntedItem]]) -> list[HuntedItem]:
    """Return the failures of all clusters, one of each in turns, so that a small cluster has captions too."""
    return [item for item in chain.from_iterable(zip_longest(*clusters)) if item is not None]


def answer_of(item: HuntedItem, classifier: str) -> str:
    """Return the class that an image is taken for."""
    return "" if item.result is None else item.result.predictions[classifier].answer


def _images(items: Sequence[HuntedItem]) -> list[str]:
    return [item.result.image for item in items if item.result is not None]


def _by_features(hunt: Hunt, label: str, classifier: str) -> Mapping[str, int]:
    for item in hunt.record.clusterings:
        told = item.instruction
        if item.label == label and item.result and told is not None and classifier in told.classifiers:
            return item.result.clusters
    return {}
