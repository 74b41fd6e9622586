"""The head of a request: its API key, and one Host header, which names a host and a port alone."""

from __future__ import annotations

import ipaddress
import re

from starlette.datastructures import Headers

from counterpose_core.errors import MalformedRequest

# RFC 9110 and 3986, without the empty host and without the percent signs that no name on a network has.
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~!$&'()*+,;=-]{1,255})(?::[0-9]{0,5})?")


def host_of(headers: Headers) -> str:
    """Return the name in the Host header, without port and brackets.

    Raises:
        MalformedRequest: there is not exactly one Host header, or it is not a host and a port.
    """
    given = headers.getlist("host")
    if len(given) != 1:
        raise MalformedRequest(f"the request has {len(given)} Host headers; send one")
    found = _HOST.fullmatch(given[0])
    name = found["name"] if found is not None else ""
    if not name or (name.startswith("[") and not _is_address(name[1:-1])):
        raise MalformedRequest(
            f"the Host header {given[0][:100]!r} is not a host and a port; send these alone"
        )
    return name.strip("[]").lower()


def bearer(headers: Headers) -> str:
    """Return the API key that a request brings, or nothing."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _is_address(written: str) -> bool:
    try:
        ipaddress.IPv6Address(written)
    except ValueError:
        return False
    return True
