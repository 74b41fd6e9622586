"""Whose page asks: a browser names the origin of each change, and only our own pages may ask for one."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

from counterpose_core.errors import ForeignOrigin

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
