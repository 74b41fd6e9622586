"""The servers that a suite leaves to its user, whose addresses and models are settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any

from pydantic import BaseModel, Field

from counterpose_core.errors import InvalidRequest
from counterpose_core.text_form import TextForm

PLACE = "$"
"""What a value of a suite begins with that is a setting's name, as `server = "$language_server"`."""
_REFERENCE = re.compile(re.escape(PLACE) + "[a-z_]+")

Server = Annotated[
    str,
    Field(pattern=r"\Ahttps?://[^/?#@\s]+(/[^/?#\s]+)*/v1\z"),
    TextForm("must be a server's address that ends in /v1, as https://host/v1, without a user or a query"),
]


class SuiteServers(BaseModel, frozen=True, extra="forbid"):
    """The settings of gateway and services that a suite may refer to, as `api` does."""

    language_server: Server | None = None
    """Address of the server of language models that the suite `api` asks, as `https://host/v1`. The services
    may call its host."""
    language_model: str | None = None
    """That server's name of a model that sees images, which writes captions and proposes changes."""
    images_server: Server | None = None
    """Address of the server of images that the suite `api` asks, as `https://host/v1`. The services may call
    its host."""
    images_model: str | None = None
    """That server's name of the model that edits."""


def with_servers(name: str, sections: Mapping[str, Any], servers: SuiteServers | None) -> dict[str, Any]:
    """Return the sections of the suite ``name`` with the settings that they refer to in their places.

    Raises:
        InvalidRequest: one is not set, or there is no such setting.
    """
    told = {PLACE + field: getattr(servers, field, None) for field in SuiteServers.model_fields}
    places = set(_places(sections))
    if unknown := sorted(places - set(told)):
        raise InvalidRequest(
            f"the suite {name!r} refers to {unknown[0]!r}, which is no setting; there are {', '.join(told)}"
        )
    if absent := [place for place in told if place in places and told[place] is None]:
        variables = ", ".join(f"COUNTERPOSE_{place.removeprefix(PLACE).upper()}" for place in absent)
        raise InvalidRequest(
            f"the suite {name!r} asks servers of yours; set {variables} for gateway and services"
        )
    filled: dict[str, Any] = _filled(sections, told)
    return filled


def _places(part: object) -> Iterator[str]:
    if isinstance(part, Mapping):
        part = list(part.values())
    if isinstance(part, list):
        yield from chain.from_iterable(map(_places, part))
    elif isinstance(part, str) and _REFERENCE.fullmatch(part):
        yield part


def _filled(part: Any, settings: Mapping[str, str | None]) -> Any:
    if isinstance(part, Mapping):
        return {field: _filled(value, settings) for field, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, settings) for value in part]
    return settings.get(part, part) if isinstance(part, str) else part
