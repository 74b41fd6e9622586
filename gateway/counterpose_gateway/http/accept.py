"""Content negotiation (RFC 9110, 12.5.1): an answer that the caller cannot read is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fastapi.routing import APIRoute
from starlette.requests import Request

from counterpose_core.errors import NotAcceptable

MOST_RANGES = 100
"""A browser sends ten; what follows is not read."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_RANGE = re.compile(rf"\s*({_TOKEN})/({_TOKEN})\s*(?:;(.*))?", re.DOTALL)
_WEIGHT = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


async def require_acceptable(request: Request) -> None:
    """Refuse a request whose route answers in no media type that the Accept header admits.

    Before the route does anything: a run that was made and not told would be made again.

    Raises:
        NotAcceptable: the header admits none of the route's media types.
    """
    given = ",".join(request.headers.getlist("accept"))
    route = request.scope.get("route")
    if not given.strip() or not isinstance(route, APIRoute):
        return
    offered = media_types(route)
    if offered and not any(weight_of(one, given) > 0 for one in offered):
        raise NotAcceptable(
            f"the Accept header {given[:200]!r} admits no answer of this address; send {' or '.join(offered)}"
        )


def media_types(route: APIRoute) -> Sequence[str]:
    """Return the media types of a route's successful answers; none where there is no content."""
    described = [answer for status, answer in route.responses.items() if str(status).startswith("2")]
    named = [media_type for answer in described for media_type in answer.get("content", {})]
    # FastAPI wraps the class where the application's default applies.
    response = getattr(route.response_class, "value", route.response_class)
    own = getattr(response, "media_type", None)
    if route.status_code == 204:
        return ()
    return named or ([own] if own else [])


def weight_of(media_type: str, accept: str) -> float:
    """Return the weight that ``accept`` gives a media type by its most specific range; 0 refuses it."""
    kind, _, subtype = media_type.partition("/")
    best, found = 0, 0.0
    for one, other, weight in _ranges(accept):
        specific = 3 if (one, other) == (kind, subtype) else 2 if (one, other) == (kind, "*") else 1
        if specific == 1 and (one, other) != ("*", "*"):
            continue
        # Of two ranges that are as specific, the kinder counts: their parameters are not compared.
        if specific > best or (specific == best and weight > found):
            best, found = specific, weight
    return found


def _ranges(accept: str) -> Iterator[tuple[str, str, float]]:
    for written in accept.split(",", MOST_RANGES)[:MOST_RANGES]:
        # What is no media range admits nothing.
        if (range_ := _RANGE.fullmatch(written)) is None:
            continue
        weights = [_WEIGHT.fullmatch(part) for part in (range_[3] or "").split(";")]
        weight = next((float(found[1]) for found in weights if found is not None), 1.0)
        yield range_[1].lower(), range_[2].lower(), weight
