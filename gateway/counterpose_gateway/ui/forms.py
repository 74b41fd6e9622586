"""What a form of the pages sends."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends
from starlette.requests import Request

from counterpose_core.errors import InvalidRequest

_MOST_FIELDS = 20


async def _form_of(request: Request) -> dict[str, str]:
    # Not through the framework, whose reader of forms also takes files and needs a library of its own.
    try:
        sent = parse_qsl(
            (await request.body()).decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=_MOST_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        raise InvalidRequest(
            "the form is not urlencoded UTF-8 of at most 20 fields; send it again"
        ) from error
    return dict(sent)


Form = Annotated[dict[str, str], Depends(_form_of)]
"""The fields of the form that was sent, by name."""
