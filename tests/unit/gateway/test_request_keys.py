"""Idempotency keys as they are kept: none of a tenant is another's, however it is spelt."""

from __future__ import annotations

import hashlib
import itertools

import pytest

from counterpose_gateway.ledger.tables.rows import request_key
from counterpose_gateway.records.tenants import DEFAULT_TENANT

TENANTS = (None, "acme", "globex", "a")
PLAIN = ("nightly", "a", "", "acme nightly", "acme/nightly", DEFAULT_TENANT)


def as_kept(tenant: str | None, key: str) -> str:
    """What a tenant may guess of how another's key is kept."""
    return f"{tenant or DEFAULT_TENANT} {hashlib.sha256(key.encode()).hexdigest()}"


SPELT = [
    *PLAIN,
    *(as_kept(tenant, key) for tenant in TENANTS for key in PLAIN),
    *(as_kept(tenant, as_kept("acme", "nightly")) for tenant in TENANTS),
    as_kept("acme", "nightly").upper(),
    as_kept("acme\n", "nightly"),
    as_kept("acme", "nightly") + "\n",
    " " + as_kept("acme", "nightly"),
]


@pytest.mark.fault("T4")
def test_no_two_keys_of_any_tenants_are_kept_as_one() -> None:
    kept = [request_key(tenant, key) for tenant, key in itertools.product(TENANTS, SPELT)]
    assert len(set(kept)) == len(TENANTS) * len(set(SPELT))
    assert [request_key(None, key) for key in SPELT] == [request_key(DEFAULT_TENANT, key) for key in SPELT]


@pytest.mark.fault("T4")
@pytest.mark.parametrize("key", ["nightly", as_kept("acme", "nightly"), as_kept(None, "nightly"), "\nx"])
def test_a_key_that_is_spelt_as_another_tenant_s_is_kept_is_one_s_own(key: str) -> None:
    assert request_key(None, as_kept("acme", key)) != request_key("acme", key)
    # The plain keys of ledgers from before tenants are found by their own words.
    assert request_key(None, "nightly") == "nightly"
