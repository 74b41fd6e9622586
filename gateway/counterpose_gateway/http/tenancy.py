"""Who calls: told by the edge, which knows the key, and read where the routes get their context."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from counterpose_gateway.access.key_ring import Holder
from counterpose_gateway.records.tenants import DEFAULT_TENANT

_NAME = "counterpose.caller"


@dataclass(frozen=True)
class Caller:
    """Whose objects a request is about, and whether it came with a key."""

    tenant: str = DEFAULT_TENANT
    has_key: bool = False


def tell_caller(scope: MutableMapping[str, Any], holder: Holder | None) -> None:
    """Note who makes a request; None for a gateway that wants no key, or an address that needs none."""
    scope[_NAME] = Caller() if holder is None else Caller(holder.tenant, has_key=True)


def caller_in(scope: MutableMapping[str, Any]) -> Caller:
    """Return who makes a request that passed the edge; of any other there is no answer to give."""
    caller = scope[_NAME]
    assert isinstance(caller, Caller)  # `tell_caller` put it there
    return caller
