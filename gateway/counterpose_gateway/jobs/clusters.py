"""The clusters that the operator named; a request can name no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.jobs.ray_cluster import RayCluster
from counterpose_gateway.settings import OTHERS, GatewaySettings


class Clusters:
    """Ray clusters by name."""

    def __init__(self, clusters: Mapping[str, RayCluster]) -> None:
        self._clusters = dict(clusters)

    def __bool__(self) -> bool:
        return bool(self._clusters)

    def named(self, name: str) -> RayCluster:
        """Return a cluster.

        Raises:
            InvalidRequest: the operator named none like this.
        """
        if name not in self._clusters:
            known = ", ".join(map(repr, self._clusters)) or "none; set COUNTERPOSE_CLUSTERS"
            raise InvalidRequest(f"unknown cluster {name!r}: the gateway has {known}", pointer="/cluster")
        return self._clusters[name]


@asynccontextmanager
async def reaching_clusters(settings: GatewaySettings) -> AsyncIterator[Clusters]:
    """Hold a pool of connections to the clusters, without proxies: the tokens must not leave the network."""
    async with httpx.AsyncClient(trust_env=False) as http:
        yield Clusters(
            {
                name: RayCluster(
                    name,
                    url,
                    http=http,
                    token_file=settings.cluster_token_files.get(
                        name, settings.cluster_token_files.get(OTHERS)
                    ),
                    versions=settings.ray_versions,
                )
                for name, url in settings.clusters.items()
            }
        )
