"""Errors of datasets that are imported from a URL."""

from __future__ import annotations

from counterpose_core.failure import RequestError


class ImportRefused(RequestError):
    """The operator does not allow imports from this address."""

    code = "import-refused"
    title = "Imports from this address are not allowed"


class ShardUnreadable(RequestError):
    """A shard is missing, changed while it was read, or is not of its format."""

    code = "shard-unreadable"
    title = "A shard of the dataset cannot be read"
    retryable = True


class DatasetNotReady(RequestError):
    """The import of the dataset has not ended."""

    code = "dataset-not-ready"
    status = 409
    title = "The dataset is still being imported"
