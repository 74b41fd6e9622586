"""Imports of datasets from URLs: looks at one until it has ended, and how it is told."""

from __future__ import annotations

import time
from collections.abc import Iterator

from counterpose_core.contract.datasets import Dataset

LOOK_S = 2.0
"""Seconds between two looks at an import."""


def has_ended(dataset: Dataset) -> bool:
    """Return whether no import of the dataset goes on."""
    return dataset.imported is None or dataset.imported.has_ended


def pauses(timeout: float | None) -> Iterator[float]:
    """Yield the pauses between looks, until ``timeout`` seconds are over; a last look follows."""
    end = None if timeout is None else time.monotonic() + timeout
    while end is None or time.monotonic() < end:
        yield LOOK_S if end is None else min(LOOK_S, max(0.0, end - time.monotonic()))


def describe_import(dataset: Dataset) -> str:
    """Say how far the import of a dataset is."""
    known = dataset.imported
    if known is None:
        return f"{dataset.name}: {dataset.n_sources} images in {len(dataset.classes)} classes"
    lines = [
        f"{dataset.name}: {known.images} images from {known.url}, {known.n_rejected} files rejected",
        f"import {known.state}: {known.shards_done} of {known.shards} shards done, "
        f"{known.shards_failed} failed",
    ]
    if known.problem is not None:
        lines.append(f"{known.problem.code}: {known.problem.detail}")
    return "\n".join(lines)
