"""Sessions of browsers: a cookie that stands for a key without containing it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request

from counterpose_gateway.records.access_keys import AccessKey


class SessionCookie(NamedTuple):
    """How a browser keeps a session."""

    name: str
    path: str
    is_secure: bool


OF_HTTPS = SessionCookie("__Host-counterpose_session", "/", True)
"""No other host and no page without TLS can set a cookie of this name; the prefix wants this path."""

LIFETIME_SECONDS = 12 * 3600
"""A working day; after it the key is asked for again."""

MOST_LETTERS = 200
"""Of a session: a cookie that is longer is none of ours."""

_PORT = re.compile(r":([0-9]+)$")


def cookie_without_tls(headers: Headers) -> SessionCookie:
    """Return the cookie of a page without TLS: of the pages alone, and named after the port in its address.

    Browsers send cookies to every port of a host: servers at two ports must not take each other's for theirs.
    """
    port = _PORT.search(headers.get("host", ""))
    return SessionCookie(f"counterpose_session_{port[1] if port else 80}", "/ui", False)


def cookies_of(request: Request) -> tuple[SessionCookie, list[str]]:
    """Return the cookie that a session may come in, and all that the browser sent under its name.

    More than one means nothing: one of them is another server's, and only the browser knows which.
    """
    # Not stripped of all spaces: those that browsers take for letters may hide a cookie that others can set.
    parts = (
        part.strip(" \t").partition("=")
        for each in request.headers.getlist("cookie")
        for part in each.split(";")
    )
    sent = [(name, value) for name, _, value in parts]
    ways = [OF_HTTPS] if request.url.scheme == "https" else [OF_HTTPS, cookie_without_tls(request.headers)]
    way = next((way for way in ways if any(name == way.name for name, _ in sent)), ways[-1])
    return way, [value for name, value in sent if name == way.name]


_SALT = b"counterpose browser session"


class Sessions:
    """Signs and checks sessions; every gateway with the same keys accepts them, and no other does.

    A session is ``<end>.<random>.<signature>``. The signing keys are derived slowly from the API keys: a
    stolen cookie does not help to guess a key, and a key that is withdrawn ends its sessions.
    """

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def open(self, key: str) -> str | None:
        """Return a new session for an API key, or None if the key is unknown."""
        # Every key is compared, so that the time taken does not show which key was close.
        known = [hmac.compare_digest(key.encode(), each) for each in self._keys]
        if not any(known):
            return None
        claim = f"{int(self._clock()) + LIFETIME_SECONDS}.{secrets.token_hex(16)}"
        return f"{claim}.{_sign(claim, self._signing_keys[known.index(True)])}"

    def open_for(self, key: AccessKey) -> str:
        """Return a new session for a key of the ledger; it ends with the key, too."""
        claim = f"{int(self._clock()) + LIFETIME_SECONDS}.{secrets.token_hex(16)}.{key.id}"
        return f"{claim}.{_sign(claim, _of_ledger(key))}"

    def key_id(self, session: str) -> str | None:
        """Return the id of the ledger's key that a session says it stands for; this proves nothing."""
        parts = session.split(".")
        return parts[2] if len(parts) == 4 and len(session) <= MOST_LETTERS else None

    def is_signed_by(self, key: AccessKey, session: str) -> bool:
        """Whether a session stands for this key of the ledger, and has not ended."""
        return self._stands(session, lambda: [_of_ledger(key)])

    def is_valid(self, session: str) -> bool:
        """Whether a session was signed with a key that is still accepted, and has not ended."""
        return self._stands(session, lambda: self._signing_keys)

    def _stands(self, session: str, keys: Callable[[], Sequence[bytes]]) -> bool:
        # The keys are asked for last: those of the settings take time at their first use.
        claim, _, signature = session.rpartition(".")
        end = claim.partition(".")[0]
        if not session.isascii() or len(session) > MOST_LETTERS or not end.isdecimal():
            return False
        matches = [hmac.compare_digest(_sign(claim, key), signature) for key in keys()]
        return any(matches) and int(end) > self._clock()

    @cached_property
    def _signing_keys(self) -> list[bytes]:
        # At the first use: 50 ms for a key, which a gateway that no browser opens need not spend.
        return [hashlib.scrypt(key, salt=_SALT, n=2**14, r=8, p=1) for key in self._keys]


def number_of(session: str) -> str:
    """Return what a valid session is remembered by once it was signed out; it opens nothing."""
    return session.split(".")[1]


def _of_ledger(key: AccessKey) -> bytes:
    # No slow hash: the key is random, and its digest never leaves the ledger.
    return hashlib.sha256(_SALT + key.digest.encode()).digest()


def _sign(claim: str, key: bytes) -> str:
    return hmac.new(key, claim.encode(), hashlib.sha256).hexdigest()
