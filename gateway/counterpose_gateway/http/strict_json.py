"""Bodies in the JSON of RFC 8259, in UTF-8 and with each key once.

Written here because pydantic silently takes the last of two equal keys, and because it reports each unknown
key in an object of its own, so that a million keys in a body of 10 MB would cost 2 GB. The types of the
bodies refuse infinite numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from counterpose_core.errors import InvalidRequest, PolicyRefused
from counterpose_core.text.word_policy import WordPolicy
from counterpose_http.exception_handlers import RefusedBody

MAX_PARTS = 100_000
"""Limit of commas and colons in a body; the largest body of any route has about ten thousand."""
MAX_KEYS = 1000
"""Limit of keys in one object; a validator that rejects each by name needs a kilobyte per key."""


class StrictRoute(APIRoute):
    """A route whose body must be strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler for a request whose body is read strictly."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            found = read_json(await self.body())
            _require_allowed(found, getattr(self.app.state, "policy", None))
            # Starlette keeps the bytes for whoever asks again; an upload would be held twice.
            self._body = b""
            return found
        except PolicyRefused as error:
            raise RefusedBody(error) from error
        except InvalidRequest as error:
            # FastAPI would treat any other exception as an error of its own parser and drop the reason.
            raise HTTPException(error.status, error.detail) from error


def _require_allowed(found: object, policy: WordPolicy | None) -> None:
    """Refuse a body with a text that the operator's list does not allow.

    Raises:
        PolicyRefused: the body has one; the message names where and which.
    """
    refused = None if policy is None else policy.found_in(found)
    if refused is not None:
        pointer, phrase = refused
        raise PolicyRefused(
            f"{pointer}: this gateway's content policy refuses {phrase!r}; say it otherwise", pointer=pointer
        )


def read_json(body: bytes) -> Any:
    """Parse a body.

    Raises:
        InvalidRequest: it is not JSON in UTF-8, too deeply nested, too large, or repeats a key.
    """
    # Counted before anything is built.
    if body.count(b",") + body.count(b":") > MAX_PARTS:
        raise InvalidRequest(f"the body has more than {MAX_PARTS} values; send it in parts")
    try:
        return json.loads(body.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        # Python's message goes on behind a semicolon with advice to programmers.
        reason = str(error).partition(";")[0]
        raise InvalidRequest(f"the body is not valid JSON in UTF-8: {reason}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise InvalidRequest(f"an object of the body has {len(pairs)} keys, more than {MAX_KEYS}")
    if len(found := dict(pairs)) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidRequest(f"an object of the body repeats the key {name[:40]!r}; send each key once")
    return found
