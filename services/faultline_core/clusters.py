"""Clusters of the edits of a class by their words (LANCE, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from faultline_core.statistics import Floats

CLUSTERS = 5

_ALIKE = 6
"""Decimals to which features must agree to count as one edit."""


@dataclass(frozen=True)
class Clustering:
    """Which cluster each edit belongs to, and the edit that each cluster is named by.

    ``labels`` holds n numbers below the number of clusters, ``names`` the index of the edit of each
    cluster that is nearest to its centre.
    """

    labels: tuple[int, ...]
    names: tuple[int, ...]

    def members(self, cluster: int) -> list[int]:
        """The indices of the edits of a cluster."""
        return [index for index, label in enumerate(self.labels) if label == cluster]


def cluster_edits(
    removed: ArrayLike, added: ArrayLike, generator: np.random.Generator, *, clusters: int = CLUSTERS
) -> Clustering:
    """K-means on how the features of the removed and of the added words differ.

    ``removed`` and ``added`` (n, d) are features of the words, zeros where there are none. What is
    clustered is added - removed (n, d). The L1 distance that the paper names is the size of it alone:
    it would put unlike changes of one size together, and a change with its reverse, of which one
    harms where the other does not. Fewer clusters where there are fewer distinct edits. Outcomes
    have no part in it, so effects may be tested on the clusters.
    """
    features = np.asarray(added, dtype=np.float64) - np.asarray(removed, dtype=np.float64)
    if features.size == 0:
        return Clustering((), ())
    distinct = len(np.unique(features.round(_ALIKE), axis=0))
    seed = int(generator.integers(2**31))
    found = KMeans(min(clusters, distinct), n_init=10, random_state=seed).fit(features)
    return Clustering(tuple(int(label) for label in found.labels_), _nearest(features, found))


def _nearest(features: Floats, found: KMeans) -> tuple[int, ...]:
    distances = np.linalg.norm(features[:, None, :] - found.cluster_centers_[None, :, :], axis=2)
    # An edit of another cluster may lie nearer to this centre than any of its own.
    outside = found.labels_[:, None] != np.arange(len(found.cluster_centers_))[None, :]
    return tuple(int(index) for index in np.where(outside, np.inf, distances).argmin(axis=0))
