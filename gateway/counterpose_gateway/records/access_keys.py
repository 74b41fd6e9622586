"""API keys that the ledger knows: shown once, kept as a digest, with scopes, an end, and revocable."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from counterpose_gateway.records.tenants import DEFAULT_TENANT

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""``read`` is GET and HEAD; ``write`` is everything that changes something."""

SECRET_BYTES = 32
_KEY = re.compile(r"cp_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class AccessKey:
    """A key as its operator sees it; the key itself is known to its holder alone.

    ``tenant``: whose objects it opens.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: dt.datetime
    expires_at: dt.datetime | None = None
    revoked_at: dt.datetime | None = None
    digest: str = field(default="", repr=False)
    tenant: str = DEFAULT_TENANT

    def refusal(self, now: dt.datetime) -> str | None:
        """Say why it opens nothing any more, or None if it does."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return f"the API key {self.name!r} ({self.id}) was revoked at {_shown(self.revoked_at)}"
        if self.expires_at is not None and self.expires_at <= now:
            return f"the API key {self.name!r} ({self.id}) ended at {_shown(self.expires_at)}"
        return None

    def is_opened_by(self, given: str) -> bool:
        """Whether ``given`` is this key, in a time that does not depend on how much of it is right."""
        return hmac.compare_digest(digest_of(given), self.digest)


def new_key(
    name: str,
    scopes: tuple[Scope, ...],
    now: dt.datetime,
    expires_at: dt.datetime | None,
    tenant: str = DEFAULT_TENANT,
) -> tuple[AccessKey, str]:
    """Make a key; the second value is what its holder sends, and is kept nowhere."""
    key_id = secrets.token_hex(8)
    whole = f"cp_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return AccessKey(key_id, name, scopes, now, expires_at, digest=digest_of(whole), tenant=tenant), whole


def successor(
    key: AccessKey, now: dt.datetime, overlap: dt.timedelta, lasts: dt.timedelta | None
) -> tuple[AccessKey, AccessKey, str]:
    """Return the key as it ends after ``overlap``, one of its name, scopes and tenant, and that one whole."""
    end = now + overlap
    ending = replace(key, expires_at=end if key.expires_at is None else min(end, key.expires_at))
    new, whole = new_key(key.name, key.scopes, now, None if lasts is None else now + lasts, key.tenant)
    return ending, new, whole


def id_in(given: str) -> str | None:
    """Return the id that a key names itself, or None if it is not written like one of the ledger's."""
    found = _KEY.fullmatch(given)
    return None if found is None else found[1]


def digest_of(given: str) -> str:
    """Return the SHA-256 of a key. It needs no slow hash: its 256 random bits cannot be guessed."""
    return hashlib.sha256(given.encode()).hexdigest()


def _shown(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class AccessEntry:
    """A change that somebody asked for: when, by which key, what, and how it was answered.

    ``tenant``: the key's.
    """

    at: dt.datetime
    holder: str
    method: str
    path: str
    status: int
    tenant: str = DEFAULT_TENANT
