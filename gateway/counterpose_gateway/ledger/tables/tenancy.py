"""Whose objects the ledger shows: everybody's to workers and operators, one tenant's to its requests.

`Ledger.of` returns a tenant's view. Each of its transactions carries the tenant, and every statement that
finds an object asks for it there: an object of another tenant is found as little as one that never was.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Column, ColumnElement, Connection, true

from counterpose_gateway.records.tenants import DEFAULT_TENANT

OPTION = "counterpose_tenant"
_BETWEEN_NAMES = "/"
"""Between a tenant and the name of its dataset, in the key of that: no name has it."""
_BETWEEN_KEYS = " "
"""The same for idempotency keys, which have no spaces."""


def tenant_of(connection: Connection) -> str | None:
    """Return whose transaction this is; None for who sees all."""
    tenant: str | None = connection.get_execution_options().get(OPTION)
    return tenant


def is_own(connection: Connection, tenant: Column[str]) -> ColumnElement[bool]:
    """Return the condition on rows whose objects the transaction may see, by their column ``tenant``."""
    mine = tenant_of(connection)
    return true() if mine is None else tenant == mine


def dataset_key(tenant: str | None, name: str) -> str:
    """Return the key of a tenant's dataset: two tenants may use one name. Who sees all gives the key."""
    if tenant is None or (tenant == DEFAULT_TENANT and _BETWEEN_NAMES not in name):
        return name
    return f"{tenant}{_BETWEEN_NAMES}{name}"


def dataset_name(key: str) -> str:
    """Return the name by which its tenant knows the dataset of this key."""
    return key.rpartition(_BETWEEN_NAMES)[2]


def request_key(tenant: str | None, key: str) -> str:
    """Return a tenant's idempotency key as it is kept, so that no other tenant's key is equal."""
    if tenant is None or tenant == DEFAULT_TENANT:
        return key
    return f"{tenant}{_BETWEEN_KEYS}{hashlib.sha256(key.encode()).hexdigest()}"
