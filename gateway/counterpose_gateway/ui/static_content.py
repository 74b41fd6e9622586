"""Script and styles of the pages: few files, known by their digests."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from counterpose_core.blobs import digest
from counterpose_gateway.reports.environment import SCRIPT

_REPORT_STYLES = ("base", "findings", "tables", "charts", "gallery", "print")


@cache
def static_content() -> dict[str, tuple[bytes, str]]:
    """The files by name, with their media types; the reports' script and styles serve the pages too."""
    reports = files("counterpose_gateway.reports").joinpath("templates/css")
    styles = [reports.joinpath(f"{name}.css").read_bytes() for name in _REPORT_STYLES]
    own = files("counterpose_gateway.ui").joinpath("static")
    return {
        "htmx.min.js": (own.joinpath("htmx.min.js").read_bytes(), "text/javascript"),
        "icon.svg": (own.joinpath("icon.svg").read_bytes(), "image/svg+xml"),
        "report.js": (SCRIPT.encode(), "text/javascript"),
        "pages.css": (b"\n".join([*styles, own.joinpath("pages.css").read_bytes()]), "text/css"),
    }


def static_addresses() -> dict[str, str]:
    """The address of each file, with the beginning of its digest: what changes has another address."""
    return {name: f"/ui/static/{name}?{digest(data)[:16]}" for name, (data, _) in static_content().items()}
