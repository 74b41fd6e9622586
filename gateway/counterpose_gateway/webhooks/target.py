"""The address of a webhook: which ones are taken, and how one is posted to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

import httpx

from counterpose_core.contract.webhooks import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, DeliveryFailure
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.records.deliveries import LeasedDelivery
from counterpose_gateway.version import VERSION
from counterpose_http.outbound import (
    Backend,
    NotPublicError,
    OutboundTransport,
    addresses_of,
    is_public,
    total_deadline,
)

SECRET_PREFIX = "whsec_"
_SCHEME = "v1"

CONNECT_SECONDS, EXCHANGE_SECONDS = 5.0, 15.0
"""The longest that a connection takes, and all after it together."""


def signature(secret: str, message: str, timestamp: int, body: str) -> str:
    """Return the header ``webhook-signature`` of a message, as Standard Webhooks define symmetric ones.

    github.com/standard-webhooks/standard-webhooks

    Args:
        secret: `SECRET_PREFIX` and the key in base64.
        message: the header ``webhook-id``.
        timestamp: the header ``webhook-timestamp``, in seconds since the epoch.
        body: the body as it is sent.
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{message}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return f"{_SCHEME},{base64.b64encode(signed).decode()}"


class NotDeliveredError(Exception):
    """A try failed: why, in one word and in a sentence."""

    def __init__(self, failure: DeliveryFailure, detail: str) -> None:
        super().__init__(detail)
        self.failure, self.detail = failure, detail


def require_target(url: str, *, private: bool) -> None:
    """Refuse an address that no webhook may have; a name is looked up only when it is posted to.

    ``private``: whether addresses of private networks and plain http are taken.

    Raises:
        InvalidRequest: it is no such address.
    """
    parts = _parts(url)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidRequest(
            "the address of a webhook has a user, a password or a fragment in it; leave them out",
            pointer="/url",
        )
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise InvalidRequest(
            f"the address {url!r} does not begin with https://; messages are sent by https alone, unless "
            "COUNTERPOSE_PRIVATE_WEBHOOKS=true",
            pointer="/url",
        )
    if not private and _is_private(parts.hostname or ""):
        raise InvalidRequest(
            f"the host of {url!r} is no public address; messages go to public addresses alone, unless "
            "COUNTERPOSE_PRIVATE_WEBHOOKS=true",
            pointer="/url",
        )


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Read here: both raise ValueError for some addresses.
        httpx.URL(url)
        if parts.hostname and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url:
            return parts
    except (ValueError, httpx.InvalidURL):
        pass
    raise InvalidRequest(f"{url!r} is no address; send one such as https://example.com/hook", pointer="/url")


def _is_private(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return not is_public(host)


class Target:
    """Posts messages to addresses.

    ``private``: whether it also goes to private networks, and by plain http. ``clock`` returns seconds since
    the epoch.
    """

    def __init__(
        self,
        *,
        private: bool = False,
        backend: Backend | None = None,
        seconds: float = EXCHANGE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._private, self._clock, self._seconds = private, clock, seconds
        self._backend = backend or Backend(None if private else addresses_of)

    def post(self, leased: LeasedDelivery) -> None:
        """Post a message once; redirects are not followed, and the answer's body is not read.

        Raises:
            NotDeliveredError: the target did not take it.
        """
        try:
            require_target(leased.url, private=self._private)
            status, location = self._answer(leased)
        except (NotPublicError, InvalidRequest) as error:
            raise NotDeliveredError("refused", str(error)) from error
        except httpx.TimeoutException as error:
            raise NotDeliveredError(
                "timed-out", f"the target did not answer within {self._seconds:g} s"
            ) from error
        except httpx.HTTPError as error:
            raise NotDeliveredError(
                "unreachable", f"the target cannot be reached: {type(error).__name__}: {error}"
            ) from error
        if 300 <= status < 400:
            raise NotDeliveredError(
                "redirected", f"the target redirects to {location[:200]!r}; redirects are not followed"
            )
        if not 200 <= status < 300:
            raise NotDeliveredError("rejected", f"the target answered {status}")

    def _answer(self, leased: LeasedDelivery) -> tuple[int, str]:
        timestamp = int(self._clock())
        headers = {
            "content-type": "application/json",
            "user-agent": f"counterpose/{VERSION}",
            ID_HEADER: leased.message,
            TIMESTAMP_HEADER: str(timestamp),
            SIGNATURE_HEADER: signature(leased.secret, leased.message, timestamp, leased.body),
        }
        # A client for each message: targets have nothing in common, and no connection is kept.
        transport = OutboundTransport(self._backend)
        timeout = httpx.Timeout(self._seconds, connect=CONNECT_SECONDS)
        with (
            total_deadline(self._seconds),
            httpx.Client(transport=transport, trust_env=False, timeout=timeout) as http,
            http.stream("POST", leased.url, content=leased.body.encode(), headers=headers) as answer,
        ):
            return answer.status_code, answer.headers.get("location", "")
