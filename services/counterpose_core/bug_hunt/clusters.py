"""Clusters of failures, by what they are taken for and by their images (Wiles et al., section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEAST_REFERENCE = 8
"""Images that say how far apart two images of the label usually are; with fewer, nothing is split further."""


def cluster_failures(
    answers: Sequence[str], features: NDArray[np.floating], reference: NDArray[np.floating]
) -> list[int]:
    """Return the cluster of each failure, numbered from 0 by size.

    Failures of one answer are split by average linkage over cosine distances, cut where two clusters are as
    far apart as two images of the label usually are: the median over the reference. A number of clusters or a
    distance would have to be chosen for each network.

    Args:
        answers: the class that each failure is taken for.
        features: its features (n, d), by a pretrained network.
        reference: the features of images of the same label on which the classifier does not fail (m, d).
    """
    usual = _usual_distance(reference)
    found: list[tuple[str, int]] = [("", 0)] * len(answers)
    for answer in dict.fromkeys(answers):
        own = [place for place, each in enumerate(answers) if each == answer]
        for place, part in zip(own, _parts(features[own], usual), strict=True):
            found[place] = answer, part
    return by_size(found)


def by_size(keys: Sequence[tuple[str, int]]) -> list[int]:
    """Number clusters by their size, the largest first and of equal ones the first by its key."""
    sizes = Counter(keys)
    ordered = sorted(sizes, key=lambda key: (-sizes[key], key))
    return [ordered.index(key) for key in keys]


def _parts(features: NDArray[np.floating], usual: float | None) -> list[int]:
    if usual is None or len(features) < 2:
        return [0] * len(features)
    # A heavy import, which only a worker that clusters needs.
    from sklearn.cluster import AgglomerativeClustering

    clustering = AgglomerativeClustering(
        n_clusters=None, distance_threshold=usual, metric="precomputed", linkage="average"
    )
    labels: list[int] = clustering.fit_predict(_distances(features)).tolist()
    return labels


def _usual_distance(reference: NDArray[np.floating]) -> float | None:
    if len(reference) < LEAST_REFERENCE:
        return None
    return float(np.median(_distances(reference)[np.triu_indices(len(reference), 1)]))


def _distances(features: NDArray[np.floating]) -> NDArray[np.float64]:
    rows = np.asarray(features, dtype=np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # Rounding makes the distance of an image to itself a little less than nothing.
    distances = np.clip(1.0 - rows @ rows.T, 0.0, None)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)
