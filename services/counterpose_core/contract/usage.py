"""``GET /v1/usage``: what a tenant has used this month, and what it may use."""

import datetime as dt

from counterpose_core.contract.base import ResponseBody


class Usage(ResponseBody):
    """What the items of a tenant's runs have used in a calendar month of UTC."""

    tenant: str
    """Whose usage it is."""
    month: str
    """The month, such as `2026-11`."""
    renews_at: dt.datetime
    """When the next month begins, in UTC."""
    images: int
    """Items that ended as `done` or `filtered`: edits, samples and images that were captioned or classified.
    An item that is tried again counts once."""
    gpu_seconds: float
    """Seconds for which the services worked on them, on GPUs or processors; an item of a batch counts its
    share."""
    images_quota: int | None
    """Most images of a month, or null for no bound."""
    gpu_seconds_quota: float | None
    """Most GPU-seconds of a month, or null for no bound."""
    stored_bytes: int
    """Bytes that the tenant has stored now: images of its datasets, token files, images of `generate`, and
    for about an hour what was deleted, until it is erased."""
    stored_bytes_quota: int | None
    """Most of these (`COUNTERPOSE_MAX_STORED_BYTES`), or null in lists of all tenants."""
