"""Bodies read as RFC 8259 has them: whatever two readers may understand differently is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from faultline_core.errors import InvalidRequest

MOST_PARTS = 100_000
"""Commas and colons of a body; the largest that a route takes has some ten thousand."""
MOST_KEYS = 1000
"""Keys of one object: a validator that refuses each by name needs a kilobyte for it."""


class StrictRoute(APIRoute):
    """A route whose JSON is in UTF-8, of finite numbers, and names each key of an object once."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, given a request that reads strictly."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return read_json(await self.body())
        except InvalidRequest as error:
            # FastAPI takes any other class for a defect of its own reading and drops the reason.
            raise HTTPException(error.status, error.detail) from error


def read_json(body: bytes) -> Any:
    """Parse a body.

    Raises:
        InvalidRequest: it is not JSON in UTF-8, nested too deeply, too manifold, or names a key twice.
    """
    # Counted before anything is built: a million keys make two gigabytes of objects and refusals.
    if body.count(b",") + body.count(b":") > MOST_PARTS:
        raise InvalidRequest(f"the body has more than {MOST_PARTS} parts")
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_object, parse_constant=_not_finite, parse_float=_finite
        )
    except RecursionError as error:
        raise InvalidRequest("the body is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"the body is no JSON: {error.msg} at character {error.pos}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is no UTF-8: byte {error.start} fits no character") from error
    except ValueError as error:
        # Python reads no integer of more than 4300 digits.
        raise InvalidRequest("a number of the body has too many digits") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise InvalidRequest(f"an object of the body has more than {MOST_KEYS} keys")
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"the key {twice[:40]!r} stands twice in one object of the body")
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)


def _not_finite(text: str) -> NoReturn:
    raise InvalidRequest(f"the body holds {text[:40]!r}, which is no finite number")
