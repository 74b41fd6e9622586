"""The ledger's schema: every table, and the conditions of its partial indexes."""

from counterpose_gateway.ledger.tables.columns import metadata
from counterpose_gateway.ledger.tables.datasets import (
    EXPIRES_AT,
    GROUPED_SOURCES,
    KEPT_DATASETS,
    MASKED_SOURCES,
    OPEN_SHARDS,
    dataset_ends,
    datasets,
    import_shards,
    imports,
    sources,
)
from counterpose_gateway.ledger.tables.runs import (
    IDLE_RUNS,
    OPEN_JOBS,
    RUNS_TO_PLAN,
    RUNS_TO_SERVE,
    RUNS_UNDER_WAY,
    deleted_runs,
    events,
    items,
    job_attempts,
    jobs,
    runs,
    shift_decisions,
    tallies,
)
from counterpose_gateway.ledger.tables.tenants import (
    PENDING_DELIVERIES,
    access_keys,
    access_log,
    blob_uses,
    deliveries,
    idempotency_keys,
    kept_blobs,
    lease_readings,
    loose_digests,
    process_counts,
    tenant_quotas,
    tenant_usage,
    webhooks,
    worker_readings,
)

__all__ = [
    "EXPIRES_AT", "GROUPED_SOURCES", "IDLE_RUNS", "KEPT_DATASETS", "MASKED_SOURCES",
    "OPEN_JOBS", "OPEN_SHARDS", "PENDING_DELIVERIES", "RUNS_TO_PLAN",
    "RUNS_TO_SERVE", "RUNS_UNDER_WAY", "access_keys", "access_log", "blob_uses", "dataset_ends",
    "datasets", "deleted_runs", "deliveries", "events", "idempotency_keys", "import_shards", "imports",
    "items", "job_attempts", "jobs", "kept_blobs", "lease_readings", "loose_digests", "metadata",
    "process_counts", "runs", "shift_decisions", "sources", "tallies", "tenant_quotas", "tenant_usage",
    "webhooks", "worker_readings",
]  # fmt: skip
