"""Links that are read without a key until they end: signed by a key, and good for one path alone."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import Request

from counterpose_core.contract.signed_urls import LONGEST_SECONDS, SIGNABLE, SignedUrl
from counterpose_core.errors import InvalidRequest, SignedUrlRefused, Unauthorized
from counterpose_gateway.access.key_ring import OF_SETTINGS, Holder, KeyRing
from counterpose_gateway.records.access_keys import AccessKey, id_in
from counterpose_gateway.records.tenants import DEFAULT_TENANT

TOLERANCE_SECONDS = 60
"""By so much the clocks of two gateways may differ: a link is good for so long after its end."""

EXPIRES, KEY_ID, SIGNATURE = "expires", "key-id", "signature"
_OWN = (EXPIRES, KEY_ID, SIGNATURE)
_READING = frozenset({"GET", "HEAD"})
_SALT = b"counterpose signed url"
_PATH = re.compile(SIGNABLE)
_ADVICE = "ask whoever shared it for another"


class SignedUrls:
    """Makes and checks links; every gateway that knows the key of a link accepts it, and no other does.

    The signing keys are derived from the API keys: a link does not help to guess a key, and ends with it.
    """

    def __init__(self, own: Sequence[bytes], ring: KeyRing, clock: Callable[[], float] = time.time) -> None:
        self._own, self._ring, self._clock = own, ring, clock

    async def sign(self, given: str, path: str, seconds: int) -> SignedUrl:
        """Return a link that the API key ``given`` signs; where no key is wanted, the path itself.

        Raises:
            InvalidRequest: the path has a signature already.
            Unauthorized: it is a session that asks, not a key.
        """
        if not await self._ring.wants_key():
            return SignedUrl(url=path, expires_at=None)
        key_id, secret = await self._signing_key(given)
        end = int(self._clock()) + seconds
        parts = urlsplit(path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        if any(name in _OWN for name, _ in query):
            raise InvalidRequest(f"the path {path!r} has a signature already", pointer="/path")
        signed = [(EXPIRES, str(end)), (KEY_ID, key_id)]
        signature = _sign(secret, parts.path, [*query, *signed])
        url = f"{parts.path}?{urlencode([*query, *signed, (SIGNATURE, signature)])}"
        return SignedUrl(url=url, expires_at=dt.datetime.fromtimestamp(end, dt.UTC))

    def is_link(self, request: Request) -> bool:
        """Whether a request reads what a link may open, with a signature and without a key."""
        reads = request.method in _READING and _PATH.fullmatch(request.url.path) is not None
        return reads and SIGNATURE in request.query_params and "authorization" not in request.headers

    async def holder(self, request: Request) -> Holder:
        """Return who reads by a link: somebody who may read this path alone.

        Raises:
            SignedUrlRefused: it has ended, was altered, or its key is not valid any more.
        """
        given = request.query_params.multi_items()
        told = dict(given)
        path, key_id, end = request.url.path, told.get(KEY_ID, ""), told.get(EXPIRES, "")
        secrets, tenant = await self._secrets(key_id)
        claim = [(name, value) for name, value in given if name != SIGNATURE]
        # Every key is compared, so that the time taken does not show which key was close.
        signature = told[SIGNATURE].encode()
        matches = [hmac.compare_digest(_sign(key, path, claim).encode(), signature) for key in secrets]
        if not any(matches):
            raise SignedUrlRefused(
                f"the link to {path[:200]!r} was altered, or the key that made it is not valid any more; "
                f"{_ADVICE}"
            )
        left = int(end) - self._clock()
        if not -TOLERANCE_SECONDS <= left <= LONGEST_SECONDS + TOLERANCE_SECONDS:
            raise SignedUrlRefused(
                f"the link to {path!r} ends at {_shown(int(end))}, and here it is "
                f"{_shown(self._clock())}; {_ADVICE}"
            )
        return Holder(f"link of {key_id}", ("read",), tenant, signed_by=key_id)

    async def _signing_key(self, given: str) -> tuple[str, bytes]:
        known = [hmac.compare_digest(given.encode(), each) for each in self._own]
        if any(known):
            secrets = await asyncio.to_thread(lambda: self._own_secrets)
            return OF_SETTINGS, secrets[known.index(True)]
        key_id = id_in(given) or ""
        key = await self._ring.holder_of_id(key_id)
        if key is None:
            raise Unauthorized("a link is signed by an API key: send it, not a browser's session")
        return key_id, _of_ledger(key)

    async def _secrets(self, key_id: str) -> tuple[Sequence[bytes], str]:
        """Return what may have signed a link of a key, and whose objects the link shows."""
        if key_id == OF_SETTINGS:
            return await asyncio.to_thread(lambda: self._own_secrets), DEFAULT_TENANT
        key = await self._ring.holder_of_id(key_id)
        if key is None or "read" not in key.scopes:
            return (), DEFAULT_TENANT
        return [_of_ledger(key)], key.tenant

    @cached_property
    def _own_secrets(self) -> list[bytes]:
        # Slowly: a link is public, and a key of the settings may be a word that somebody chose.
        return [hashlib.scrypt(key, salt=_SALT, n=2**14, r=8, p=1) for key in self._own]


def _of_ledger(key: AccessKey) -> bytes:
    # No slow hash: the key is random, and its digest never leaves the ledger.
    return hashlib.sha256(_SALT + key.digest.encode()).digest()


def _sign(secret: bytes, path: str, claim: Sequence[tuple[str, str]]) -> str:
    text = f"GET\n{path}\n{urlencode(sorted(claim))}"
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _shown(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
