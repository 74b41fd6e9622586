"""What the ledger and the importer exchange: leases to list and to read shards, and new shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.datasets import ImportCreate, Layout


@dataclass(frozen=True, kw_only=True)
class LeasedImport:
    """The lease of a part of an import; every write names ``fence``."""

    dataset: str
    request: ImportCreate
    layout: Layout
    fence: int


@dataclass(frozen=True, kw_only=True)
class LeasedListing(LeasedImport):
    """The lease under which this process finds the shards of an import, from the ``listed``-th on.

    ``mark`` names the last one that was found.
    """

    listed: int
    mark: str | None


@dataclass(frozen=True, kw_only=True)
class LeasedShard(LeasedImport):
    """The lease under which this process reads a shard from ``position`` on.

    ``label`` and ``files`` are set for a part of a folder of one class. ``names`` are the classes by number,
    and ``classes`` those that are allowed, or None if the labels decide. ``stamp`` is the shard's when its
    first images were recorded, or None if none were.
    """

    ordinal: int
    path: str
    label: str | None
    files: Sequence[str] | None
    names: Sequence[str] | None
    classes: Sequence[str] | None
    stamp: str | None
    position: int


@dataclass(frozen=True, kw_only=True)
class NewShard:
    """A shard that was found; ``mark`` lets a listing go on behind it."""

    path: str
    mark: str
    label: str | None = None
    files: Sequence[str] | None = None
