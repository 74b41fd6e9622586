"""How many requests a caller may make in a minute, and the headers that say so.

The fields are those of draft-ietf-httpapi-ratelimit-headers (its version 10). Each process counts by itself:
several gateways of one ledger each grant the whole.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.errors import RateLimited
from counterpose_gateway.settings import GatewaySettings

WINDOW_SECONDS = 60
MOST_CALLERS = 10_000
"""Callers that are remembered, the latest ones: about 2 MB, whoever calls."""
_STANDING = "rate_limit"
Clock = Callable[[], float]


@dataclass(frozen=True)
class Standing:
    """What a caller has left of a policy: units, and seconds until there is one more."""

    policy: str
    quota: int
    remaining: int
    seconds: int
    is_refused: bool = False

    @property
    def fields(self) -> dict[str, str]:
        """The two headers."""
        return {
            "ratelimit-policy": f'"{self.policy}";q={self.quota};w={WINDOW_SECONDS}',
            "ratelimit": f'"{self.policy}";r={self.remaining};t={self.seconds}',
        }


class RateLimit:
    """So many units a minute for each caller, by the generic cell rate algorithm (ITU-T I.371).

    A caller that was silent for a minute may spend all units at once; after that they come back evenly.
    """

    def __init__(self, policy: str, quota: int, clock: Clock = time.monotonic) -> None:
        self._policy, self._quota, self._clock = policy, quota, clock
        self._interval = WINDOW_SECONDS / quota
        # For each caller the time at which all its units are there again.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, caller: str) -> Standing:
        """Spend a unit of a caller, if it has one; the answer says whether it had."""
        standing = self.look(caller)
        if standing.is_refused:
            return standing
        self._full_at[caller] = max(self._full_at.get(caller, 0.0), self._clock()) + self._interval
        self._full_at.move_to_end(caller)
        while len(self._full_at) > MOST_CALLERS:
            self._full_at.popitem(last=False)
        return self._standing(caller)

    def look(self, caller: str) -> Standing:
        """Return what a caller has left; refused if that is nothing."""
        standing = self._standing(caller)
        return standing if standing.remaining else replace(standing, is_refused=True)

    def _standing(self, caller: str) -> Standing:
        missing = max(self._full_at.get(caller, 0.0) - self._clock(), 0.0)
        # Rounded first: a unit that a float's last digits are missing of is there.
        units = round((WINDOW_SECONDS - missing) / self._interval, 6)
        remaining = max(math.floor(units), 0)
        until_next = (remaining + 1 - units) * self._interval
        return Standing(self._policy, self._quota, remaining, max(math.ceil(until_next), 1))


class CallerLimits:
    """Bounds the requests of each holder of a key, and the keys that each address was refused.

    Where an address has used up its refusals, only holders that were served before go on from there: who
    guesses keys learns nothing more, and who shares an address with them is not locked out.
    """

    def __init__(self, settings: GatewaySettings, clock: Clock = time.monotonic) -> None:
        most, refused = settings.requests_per_minute, settings.refused_keys_per_minute
        self._requests = RateLimit("requests", most, clock) if most else None
        self._refused = RateLimit("refused-keys", refused, clock) if refused else None
        self._served: OrderedDict[str, None] = OrderedDict()

    def serve(self, scope: Scope, holder: str) -> None:
        """Count a request with a valid key.

        Raises:
            RateLimited: its holder makes too many, or is new here and the address was refused too many keys.
        """
        if holder not in self._served:
            self.require_address(scope)
        self._served[holder] = None
        self._served.move_to_end(holder)
        while len(self._served) > MOST_CALLERS:
            self._served.popitem(last=False)
        if self._requests is not None:
            _require(scope, self._requests.take(holder), "COUNTERPOSE_REQUESTS_PER_MINUTE")

    def refuse(self, scope: Scope) -> None:
        """Count a request without a valid key; raises RateLimited as `require_address`."""
        if self._refused is not None:
            _require(scope, self._refused.take(caller_of(scope)), "COUNTERPOSE_REFUSED_KEYS_PER_MINUTE")

    def count_refusal(self, scope: Scope) -> None:
        """Count a key that a page refused, after its answer."""
        if self._refused is not None:
            self._refused.take(caller_of(scope))

    def require_address(self, scope: Scope) -> None:
        """Raise RateLimited if an address was refused too many keys."""
        if self._refused is not None:
            standing = self._refused.look(caller_of(scope))
            if standing.is_refused:
                _require(scope, standing, "COUNTERPOSE_REFUSED_KEYS_PER_MINUTE")


class RateLimitFields:
    """Middleware that tells a caller what is left; it encloses what writes refusals, which tell it, too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            standing = scope.get("state", {}).get(_STANDING)
            if message["type"] == "http.response.start" and standing is not None:
                MutableHeaders(scope=message).update(standing.fields)
            await send(message)

        await self._app(scope, receive, told)


def caller_of(scope: Scope) -> str:
    """Return the address of a caller: of IPv6 its network, of which one caller has every address."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    inside = getattr(address, "ipv4_mapped", None) or address
    return str(ipaddress.ip_network((inside, 64 if inside.version == 6 else 32), strict=False))


def _require(scope: Scope, standing: Standing, setting: str) -> None:
    scope.setdefault("state", {})[_STANDING] = standing
    if standing.is_refused:
        what = standing.policy.replace("-", " ")
        raise RateLimited(
            f"more than {standing.quota} {what} in a minute ({setting}); retry in {standing.seconds} s",
            retry_after_s=standing.seconds,
        )
