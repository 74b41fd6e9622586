"""Whose request it is: told by the edge, which knows the key, and read where the routes get their ledger."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

_NAME = "faultline.tenant"


def tell_tenant(scope: MutableMapping[str, Any], tenant: str) -> None:
    """Note the tenant of a request."""
    scope[_NAME] = tenant


def tenant_of(scope: MutableMapping[str, Any]) -> str:
    """Return the tenant of a request that passed the edge; without it there is no answer to give."""
    tenant = scope[_NAME]
    assert isinstance(tenant, str)  # `tell_tenant` put it there
    return tenant
