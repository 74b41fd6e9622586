"""The head of a request: its API key, and one Host header, which names a host and a port alone.

Whose page asks: a browser names the origin of each change, and only our own pages may ask for one.

Who calls: told by the edge, which knows the key, and read where the routes get their context.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from counterpose_core.errors import ForeignOrigin, MalformedRequest
from counterpose_gateway.access.key_ring import Holder
from counterpose_gateway.records.tenants import DEFAULT_TENANT

# RFC 9110 and 3986, without the empty host and without the percent signs that no name on a network has.
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~!$&'()*+,;=-]{1,255})(?::[0-9]{0,5})?")

# In absolute form, as to a proxy: RFC 9112, section 3.2.2.
_WHOLE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


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


# A shift may be a whole prompt: it is the last part of its address.
_FREE_PART = b"/shift-thresholds/"


def require_plain(target: bytes, fields: Sequence[tuple[bytes, bytes]], version: str) -> None:
    """Refuse a head that a proxy in front of us may read as that of another request, or of another body.

    Raises:
        MalformedRequest: the target names another host than the Host header, or has a slash that is
            encoded; or the body is sent by anything but one ``Transfer-Encoding: chunked``.
    """
    values = [value for name, value in fields if name == b"host"]
    whole = _WHOLE.match(target)
    if not target.startswith((b"/", b"*")) and (
        whole is None or [whole[1].lower()] != [*map(bytes.lower, values)]
    ):
        raise MalformedRequest(
            f"the request's target is {_told(target)}, and not a path of the host that it names"
        )
    if b"%2f" in target.partition(b"?")[0].lower().partition(_FREE_PART)[0]:
        raise MalformedRequest(
            f"the path {_told(target)} has an encoded slash, and no address or name has one"
        )
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if codings and (version == "1.0" or [*map(bytes.lower, codings)] != [b"chunked"]):
        raise MalformedRequest(
            f"the body is sent by {_told(b', '.join(codings))}; send it by one 'Transfer-Encoding: chunked' "
            "of HTTP/1.1, or with its length"
        )


def _told(written: bytes) -> str:
    return repr(written[:100].decode("latin-1"))


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


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PORTS = {"http": 80, "https": 443}


def require_own_origin(method: str, headers: Headers, *, must_tell: bool = False) -> None:
    """Refuse a change that a page of another origin asks for; programs send no origin and pass.

    With ``must_tell`` a request without an Origin is refused too: browsers send one with every change.

    Any open page may send a request to any address. Without this check it could cancel or delete the runs
    of whoever looks at it, on loopback too, where no key is asked for.

    Raises:
        ForeignOrigin: the request changes something, and its Origin or Sec-Fetch-Site is not ours, or
            there is no Origin where there must be one.
    """
    if method in SAFE_METHODS:
        return
    origin = headers.get("origin")
    if origin is not None and not is_own(origin, headers.get("host", "")):
        raise ForeignOrigin(
            f"a page of {origin[:200]!r} asked for this change; only this gateway's own pages may"
        )
    if origin is None and must_tell:
        raise ForeignOrigin("a browser's session asked for this change without an Origin header; send one")
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        raise ForeignOrigin(
            f"a page of another site asked for this change (Sec-Fetch-Site {site[:40]!r}); "
            "only this gateway's own pages may"
        )


def is_own(origin: str, host: str) -> bool:
    """Whether an origin is the address that the request itself was sent to.

    The scheme may differ: a proxy that ends TLS passes on the host and not the scheme.
    """
    try:
        told = urlsplit(origin)
        port = _PORTS.get(told.scheme)
        # "null", an origin without a name, has no port; a path or a user name makes it no origin at all.
        if port is None or not told.hostname or origin != f"{told.scheme}://{told.netloc}" or "@" in origin:
            return False
        asked = urlsplit(f"//{host}")
        return (told.hostname, told.port or port) == (asked.hostname, asked.port or port)
    except ValueError:
        return False


_NAME = "counterpose.caller"
_SESSION = "counterpose.session"


@dataclass(frozen=True)
class Caller:
    """Whose objects a request is about, and whether it came with a key."""

    tenant: str = DEFAULT_TENANT
    has_key: bool = False


def tell_caller(scope: MutableMapping[str, Any], holder: Holder | None) -> None:
    """Note who makes a request; None for a gateway that wants no key, or an address that needs none."""
    scope[_SESSION] = None if holder is None else holder.session
    scope[_NAME] = Caller() if holder is None else Caller(holder.tenant, has_key=True)


def caller_in(scope: MutableMapping[str, Any]) -> Caller:
    """Return who makes a request that passed the edge; of any other there is no answer to give."""
    caller = scope[_NAME]
    assert isinstance(caller, Caller)  # `tell_caller` put it there
    return caller


def session_in(scope: Mapping[str, Any]) -> str | None:
    """Return the number of the valid session that a request came with; None for any other."""
    number: str | None = scope[_SESSION]
    return number
