"""Sessions of browsers: a cookie that stands for a key without containing it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from functools import cached_property

COOKIE = "faultline_session"
LIFETIME_SECONDS = 12 * 3600
"""A working day; after it the key is asked for again."""

_SALT = b"faultline browser session"


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

    def is_valid(self, session: str) -> bool:
        """Whether a session was signed with a key that is still accepted, and has not ended."""
        claim, _, signature = session.rpartition(".")
        end = claim.partition(".")[0]
        if not session.isascii() or len(session) > 200 or not end.isdecimal():
            return False
        matches = [hmac.compare_digest(_sign(claim, key), signature) for key in self._signing_keys]
        return any(matches) and int(end) > self._clock()

    @cached_property
    def _signing_keys(self) -> list[bytes]:
        # At the first use: 50 ms for a key, which a gateway that no browser opens need not spend.
        return [hashlib.scrypt(key, salt=_SALT, n=2**14, r=8, p=1) for key in self._keys]


def _sign(claim: str, key: bytes) -> str:
    return hmac.new(key, claim.encode(), hashlib.sha256).hexdigest()
