"""The list of hosts that may be called."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from counterpose_core.errors import UnknownModel
from counterpose_core.types import is_loopback


def require_host(url: str, hosts: Sequence[str], *, use: str, setting: str) -> None:
    """Raise UnknownModel unless the host of ``url`` is one of ``hosts``, given with or without a port.

    Args:
        url: the address to be called.
        hosts: the operator's list.
        use: what the host is for, as the error says it.
        setting: the variable that holds the list.
    """
    parts = urlsplit(url)
    # On this machine every port is a server of somebody: each is allowed by its own number.
    named = {parts.netloc} if is_loopback(parts.hostname or "") else {parts.netloc, parts.hostname}
    if not named & set(hosts):
        wanted = parts.netloc if len(named) == 1 else parts.hostname
        raise UnknownModel(
            f"the host of {url!r} is not allowed for {use}; add {wanted!r} to {setting} of the services"
        )


def bare_loopback(hosts: Sequence[str]) -> str | None:
    """Return the first of ``hosts`` that would open every port of this machine, or None."""
    return next((host for host in hosts if is_loopback(host)), None)
