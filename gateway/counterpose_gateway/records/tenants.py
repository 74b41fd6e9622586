"""Tenants: who shares a gateway without seeing each other; each object belongs to one."""

from __future__ import annotations

import re

from counterpose_core.errors import InvalidRequest

DEFAULT_TENANT = "default"
"""The tenant of keys of the settings, of callers without a key, and of what is older than tenants."""

_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")


def tenant_named(name: str) -> str:
    """Return the name of a tenant; there is a tenant for each key that names it.

    Raises:
        InvalidRequest: it is no name of one.
    """
    if _TENANT.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:60]!r} is no name of a tenant; use 1 to 48 lower-case letters, digits and hyphens, "
            "with no hyphen at either end"
        )
    return name
