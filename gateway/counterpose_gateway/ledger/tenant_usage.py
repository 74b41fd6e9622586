"""What tenants use, counted in the transaction that records it, and whether that is more than they may.

Counted by the calendar month of UTC: a clock that is set back counts to the month before, whose count is
still there, so nothing renews twice.
"""

from __future__ import annotations

import datetime as dt
import zlib

from sqlalchemy import Connection, bindparam, func, select, text

from counterpose_gateway.access.tenants import Allowance, Quota, Used
from counterpose_gateway.ledger import tallies
from counterpose_gateway.ledger.quota_tables import tenant_quotas, tenant_usage

_quotas = tenant_quotas.c
_usage = tenant_usage.c
# As text: both databases have it, and SQLAlchemy two names for it.
_ADD = text(
    "INSERT INTO tenant_usage (tenant, month, shard, images, gpu_seconds) "
    "VALUES (:tenant, :month, :shard, :images, :seconds) "
    "ON CONFLICT (tenant, month, shard) DO UPDATE SET images = tenant_usage.images + excluded.images, "
    "gpu_seconds = tenant_usage.gpu_seconds + excluded.gpu_seconds"
)
_QUOTA = select(_quotas.images, _quotas.gpu_seconds).where(_quotas.tenant == bindparam("of_tenant"))
_USED = select(
    func.coalesce(func.sum(_usage.images), 0), func.coalesce(func.sum(_usage.gpu_seconds), 0.0)
).where(_usage.tenant == bindparam("of_tenant"), _usage.month == bindparam("of_month"))


def add_usage(
    connection: Connection, tenant: str, run_id: str, now: float, *, images: int, gpu_seconds: float
) -> None:
    """Count what items of a run have used; the last lock that a transaction takes."""
    if not images and not gpu_seconds:
        return
    shard = zlib.crc32(run_id.encode()) % tallies.SHARDS
    values = {"tenant": tenant, "month": month_of(now), "shard": shard}
    connection.execute(_ADD, {**values, "images": images, "seconds": gpu_seconds})


def used(connection: Connection, tenant: str, now: float) -> Used:
    """Return what a tenant has used in the month of ``now``."""
    images, seconds = connection.execute(_USED, {"of_tenant": tenant, "of_month": month_of(now)}).one()
    return Used(int(images), float(seconds))


def quota(connection: Connection, tenant: str) -> Quota:
    """Return what a tenant may use in a month."""
    row = connection.execute(_QUOTA, {"of_tenant": tenant}).first()
    return Quota() if row is None else Quota(row.images, row.gpu_seconds)


def allowance(connection: Connection, tenant: str, now: float) -> Allowance:
    """Return what a tenant may use in the month of ``now``, and has used."""
    most = quota(connection, tenant)
    # Each lease asks: without a quota nothing is summed up.
    so_far = Used() if most == Quota() else used(connection, tenant, now)
    return Allowance(tenant, most, so_far, renewal(now))


def month_of(now: float) -> str:
    """Return the month of UTC, such as ``2026-11``."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m")


def renewal(now: float) -> dt.datetime:
    """Return when the next month begins."""
    today = dt.datetime.fromtimestamp(now, dt.UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return dt.datetime(year, month, 1, tzinfo=dt.UTC)
