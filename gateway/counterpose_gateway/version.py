"""Which Counterpose this is."""

from __future__ import annotations

from importlib import metadata

VERSION = metadata.version("counterpose")

VERSIONS = {"counterpose": VERSION} | {
    name: metadata.version(name) for name in ("numpy", "scipy", "pydantic")
}
"""What a run's configuration records: libraries whose next version could move a figure."""
