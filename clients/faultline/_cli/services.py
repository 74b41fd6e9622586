"""``faultline services``: which services are ready."""

from __future__ import annotations

from faultline._cli.options import AsJson, Url
from faultline._cli.tables import Table
from faultline._cli.terminal import connected, show


def services(as_json: AsJson = False, url: Url = None) -> None:
    """Show which services are ready."""
    with connected(url) as client:
        found = client.services.list()
        rows = [
            (each.service, "ready" if each.ready else "not ready", "" if each.ready else each.detail)
            for each in found.services
        ]
        show(found, str(Table(("service", "state", "detail"), rows)), as_json)
