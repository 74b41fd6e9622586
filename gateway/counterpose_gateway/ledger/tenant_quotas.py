"""Quotas of tenants: set by the operator, asked by whoever makes a run, shown to the tenant."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, insert, select

from counterpose_core.contract.usage import Usage
from counterpose_gateway.access.tenants import DEFAULT_TENANT, Allowance, Quota
from counterpose_gateway.ledger import tenant_usage
from counterpose_gateway.ledger.database import LedgerPart
from counterpose_gateway.ledger.quota_tables import tenant_quotas

_quotas = tenant_quotas.c


class TenantQuotas(LedgerPart):
    """The part of the ledger that bounds what tenants use."""

    def set_quota(self, tenant: str, most: Quota) -> None:
        """Let a tenant use so much in a month; without a bound it has no quota."""
        with self._database.writing() as connection:
            connection.execute(delete(tenant_quotas).where(_quotas.tenant == tenant))
            if most != Quota():
                values = {"tenant": tenant, "images": most.images, "gpu_seconds": most.gpu_seconds}
                connection.execute(insert(tenant_quotas).values(values))

    def quotas(self) -> Mapping[str, Quota]:
        """Return the quota of each tenant that has one, by name."""
        with self._database.reading() as connection:
            rows = connection.execute(select(tenant_quotas).order_by(_quotas.tenant)).all()
        return {row.tenant: Quota(row.images, row.gpu_seconds) for row in rows}

    def allowance(self) -> Allowance:
        """Return what the tenant may use this month, and has used, to judge what it asks for."""
        with self._database.reading() as connection:
            return tenant_usage.allowance(connection, self._owner, self._clock())

    def note_usage(self, images: int, gpu_seconds: float) -> None:
        """Count what the tenant used without a run."""
        with self._database.writing() as connection:
            tenant_usage.add_usage(
                connection, self._owner, "", self._clock(), images=images, gpu_seconds=gpu_seconds
            )

    def usage(self) -> Usage:
        """Return what the tenant has used this month, and what it may use."""
        now = self._clock()
        with self._database.reading() as connection:
            used = tenant_usage.used(connection, self._owner, now)
            most = tenant_usage.quota(connection, self._owner)
        return Usage(
            tenant=self._owner, month=tenant_usage.month_of(now), renews_at=tenant_usage.renewal(now),
            images=used.images, gpu_seconds=used.gpu_seconds,
            images_quota=most.images, gpu_seconds_quota=most.gpu_seconds,
        )  # fmt: skip

    @property
    def _owner(self) -> str:
        return self._tenant or DEFAULT_TENANT
