"""Clusters of a class's edits by their changes of words (LANCE, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterpose_core.statistics.bootstrap import Floats

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

CLUSTERS = 5

_ALIKE = 6
"""The number of decimals to which the features of equal edits agree."""


@dataclass(frozen=True)
class Clustering:
    """The cluster of each edit, and the edit that names each cluster.

    ``labels`` is the cluster of each of the n edits; ``names`` is, for each cluster, the index of its edit
    nearest to its centre.
    """

    labels: tuple[int, ...]
    names: tuple[int, ...]

    def members(self, cluster: int) -> list[int]:
        """Return the indices of the edits of a cluster."""
        return [index for index, label in enumerate(self.labels) if label == cluster]


def cluster_edits(
    removed: ArrayLike, added: ArrayLike, generator: np.random.Generator, *, clusters: int = CLUSTERS
) -> Clustering:
    """Cluster edits by k-means on the difference of features, added - removed (n, d).

    The L1 distance that the paper names is only the size of this difference: it would group unlike changes
    of equal size, and a harmful change with its harmless reverse. There are fewer clusters if there are
    fewer distinct edits. Outcomes are not used, so effects may be tested on the clusters.

    Args:
        removed: features of the removed words (n, d); zeros if no word was removed.
        added: features of the added words (n, d); zeros if no word was added.
        generator: draws the seed of k-means.
        clusters: the largest number of clusters.
    """
    # scikit-learn brings scipy.stats and pandas: a second and 100 MB at the start of a process.
    from sklearn.cluster import KMeans

    features = np.asarray(added, dtype=np.float64) - np.asarray(removed, dtype=np.float64)
    if features.size == 0:
        return Clustering((), ())
    distinct = len(np.unique(features.round(_ALIKE), axis=0))
    seed = int(generator.integers(2**31))
    found = KMeans(min(clusters, distinct), n_init=10, random_state=seed).fit(features)
    return Clustering(tuple(int(label) for label in found.labels_), _nearest(features, found))


def _nearest(features: Floats, found: KMeans) -> tuple[int, ...]:
    distances = np.linalg.norm(features[:, None, :] - found.cluster_centers_[None, :, :], axis=2)
    # An edit of another cluster may be nearer to this centre than any edit of the cluster.
    outside = found.labels_[:, None] != np.arange(len(found.cluster_centers_))[None, :]
    return tuple(int(index) for index in np.where(outside, np.inf, distances).argmin(axis=0))
