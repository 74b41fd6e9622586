"""What a submission asks of the ledger before it plans: quota and idempotency key, once each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import event

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.tenants import Quota
from fakes.gateway import fake_gateway

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
QUOTA, USED, KEY = "FROM tenant_quotas", "FROM tenant_usage", "WHERE runs.idempotency_key"


def count_queries(ledger: Ledger) -> Counter[str]:
    """Count, from now on, the queries for a quota, for its use and for a key."""
    counted: Counter[str] = Counter()

    @event.listens_for(ledger._session.database.engine, "before_cursor_execute")
    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said = " ".join(statement.split())
        counted.update(asked for asked in (QUOTA, USED, KEY) if asked in said)

    return counted


@pytest.mark.parametrize("bounded", [False, True])
async def test_quota_and_key_are_asked_once_a_submission(tmp_path: Path, *, bounded: bool) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 2)
        if bounded:
            gateway.ledger.access.set_quota("default", Quota(images=1000))
        counted = count_queries(gateway.ledger)
        headers = {"idempotency-key": "mine"}
        made = await gateway.http.post("/v1/stress-tests", json=BODY, headers=headers)
        assert made.status_code == 202, made.text
        assert counted == Counter({QUOTA: 1, USED: int(bounded), KEY: 1})
        # What a key made is answered without a plan.
        counted.clear()
        again = await gateway.http.post("/v1/stress-tests", json=BODY, headers=headers)
        assert again.json()["id"] == made.json()["id"]
        assert counted == Counter({QUOTA: 1, USED: int(bounded), KEY: 1})
