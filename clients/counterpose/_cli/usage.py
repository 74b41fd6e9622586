"""``counterpose usage``: what the runs of the caller's tenant have used this month."""

from __future__ import annotations

from counterpose._cli.options import AsJson, Url
from counterpose._cli.tables import Table
from counterpose._cli.terminal import connected, show


def usage(as_json: AsJson = False, url: Url = None) -> None:
    """Show what your tenant has used this month, what it stores, and its quotas."""
    with connected(url) as client:
        found = client.usage()
        rows = [
            ("images", f"{found.images:,}", _bound(found.images_quota)),
            ("GPU-seconds", f"{found.gpu_seconds:,.0f}", _bound(found.gpu_seconds_quota)),
            ("bytes stored", f"{found.stored_bytes:,}", _bound(found.stored_bytes_quota)),
        ]
        table = Table(("of " + found.month, "used", "quota"), rows)
        renewed = f"tenant {found.tenant}, renewed on {found.renews_at:%Y-%m-%d} UTC"
        show(found, f"{table}\n{renewed}", as_json)


def _bound(most: float | None) -> str:
    return "none" if most is None else f"{most:,.0f}"
