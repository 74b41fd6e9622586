"""The keys that open this gateway: those of its settings, and those of the ledger."""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.errors import Unauthorized
from counterpose_gateway.records.access_keys import SCOPES, AccessKey, Scope, id_in
from counterpose_gateway.records.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    from counterpose_gateway.ledger.access import Access

KNOWN_SECONDS = 3.0
"""For so long a key is not looked up again: a revoked one opens the gateway that much longer."""
MOST_KNOWN = 1024
"""Ids that are remembered, those of no key too, so that guessing costs little memory."""
OF_SETTINGS = "settings"
"""The holder of a key of the settings, in the log; it has every scope."""


@dataclass(frozen=True)
class Holder:
    """Who calls: the id of a key, or ``settings``, what it may do, and whose objects it sees."""

    id: str
    scopes: tuple[Scope, ...] = SCOPES
    tenant: str = DEFAULT_TENANT


class KeyRing:
    """Finds the holder of a key; what the ledger says is remembered for some seconds."""

    def __init__(
        self, own: Sequence[bytes], access: Access | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._own, self._access, self._clock = own, access, clock
        self._known: OrderedDict[str, tuple[float, AccessKey | None]] = OrderedDict()
        self._asked, self._any = float("-inf"), False

    async def wants_key(self) -> bool:
        """Whether callers need a key: the settings name one, or one was made."""
        if self._own or self._any or self._access is None:
            return bool(self._own) or self._any
        if self._clock() - self._asked > KNOWN_SECONDS:
            self._any = await asyncio.to_thread(self._access.has_keys)
            self._asked = self._clock()
        return self._any

    async def holder(self, given: str) -> Holder:
        """Return who holds a key.

        Raises:
            Unauthorized: it is missing, unknown, revoked, or has ended.
        """
        # Every key is compared, so that the time taken does not show which key was close.
        matches = [hmac.compare_digest(given.encode(), key) for key in self._own]
        if any(matches):
            return Holder(OF_SETTINGS)
        key_id = id_in(given)
        key = None if key_id is None else await self._found(key_id)
        if key is None or not key.is_opened_by(given):
            raise Unauthorized(
                "the API key is missing or unknown; send it in the header 'Authorization: Bearer <key>', as "
                "our client does with the variable COUNTERPOSE_API_KEY"
            )
        return self._valid(key)

    async def holder_of_id(self, key_id: str) -> AccessKey | None:
        """Return a key that is still valid, by its id."""
        key = await self._found(key_id)
        return None if key is None or key.refusal(_now()) is not None else key

    def _valid(self, key: AccessKey) -> Holder:
        if (refusal := key.refusal(_now())) is not None:
            raise Unauthorized(f"{refusal}; ask the operator for another")
        return Holder(key.id, key.scopes, key.tenant)

    async def _found(self, key_id: str) -> AccessKey | None:
        if self._access is None:
            return None
        at, key = self._known.get(key_id, (float("-inf"), None))
        if self._clock() - at > KNOWN_SECONDS:
            key = await asyncio.to_thread(self._access.key, key_id)
            self._known[key_id] = self._clock(), key
            self._known.move_to_end(key_id)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return key


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
