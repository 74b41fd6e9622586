"""The keys that open this gateway: those of its settings, and those of the ledger."""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from counterpose_core.errors import Unauthorized
from counterpose_gateway.records.access_keys import SCOPES, AccessKey, Scope, id_in
from counterpose_gateway.records.tenants import DEFAULT_TENANT

if TYPE_CHECKING:
    from counterpose_gateway.ledger.access import Access

KNOWN_SECONDS = 3.0
"""For so long a key or a session is not looked up again: one that has ended opens that much longer."""
MOST_KNOWN = 1024
"""Ids that are remembered, those of no key too, so that guessing costs little memory."""
OF_SETTINGS = "settings"
"""The holder of a key of the settings, in the log; it has every scope."""


T = TypeVar("T")


@dataclass(frozen=True)
class Holder:
    """Who calls: the id of a key, or ``settings``, what it may do, and whose objects it sees.

    ``session``: the number of the browser's session that stands for the key; None where the key itself came.
    ``signed_by``: the key that made the link by which somebody reads; None for a key itself.
    """

    id: str
    scopes: tuple[Scope, ...] = SCOPES
    tenant: str = DEFAULT_TENANT
    session: str | None = None
    signed_by: str | None = None

    @property
    def key_id(self) -> str:
        """The id of the key with which the right to call ends."""
        return self.signed_by or self.id


class _Memory(Generic[T]):
    """What the ledger says of an id, remembered for some seconds."""

    def __init__(self, ask: Callable[[str], T], clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()

    async def of(self, name: str) -> T:
        if name not in self._known or self._clock() - self._known[name][0] > KNOWN_SECONDS:
            self.note(name, await asyncio.to_thread(self._ask, name))
        return self._known[name][1]

    def note(self, name: str, value: T) -> None:
        self._known[name] = self._clock(), value
        self._known.move_to_end(name)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


class KeyRing:
    """Finds the holder of a key; what the ledger says is remembered for some seconds."""

    def __init__(
        self, own: Sequence[bytes], access: Access | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._own, self._access, self._clock = own, access, clock
        self._keys = None if access is None else _Memory(access.key, clock)
        self._sessions = None if access is None else _Memory(access.has_ended, clock)
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
        return None if self._keys is None else await self._keys.of(key_id)

    async def has_ended(self, session: str) -> bool:
        """Whether a browser's session, by its number, was signed out at any gateway."""
        return self._sessions is not None and await self._sessions.of(session)

    async def end(self, session: str) -> None:
        """Sign a browser's session out; the other gateways know it as soon as they ask again."""
        if self._access is not None and self._sessions is not None:
            await asyncio.to_thread(self._access.end_session, session)
            self._sessions.note(session, True)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
