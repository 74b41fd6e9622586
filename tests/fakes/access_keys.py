"""Keys of a ledger, as its operator makes them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import httpx

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.access_keys import SCOPES, AccessKey, Scope, new_key
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from fakes.gateway import URL, FakeGateway


def new_access_key(
    ledger: Ledger, *scopes: Scope, ends: dt.timedelta | None = None, tenant: str = DEFAULT_TENANT
) -> tuple[AccessKey, str]:
    """Make a key of some scopes, or all; return it and what its holder sends."""
    now = dt.datetime.now(dt.UTC)
    key, whole = new_key("ci", scopes or SCOPES, now, None if ends is None else now + ends, tenant)
    ledger.access.add_key(key)
    return key, whole


def gateway_of(gateway: FakeGateway, tenant: str) -> FakeGateway:
    """The gateway as the holder of a tenant's key sees it."""
    _, whole = new_access_key(gateway.ledger, tenant=tenant)
    transport = gateway.http._transport
    http = httpx.AsyncClient(
        transport=transport, base_url=URL, headers={"authorization": f"Bearer {whole}"}
    )  # fmt: skip
    return replace(gateway, http=http, ledger=gateway.ledger.of(tenant))
