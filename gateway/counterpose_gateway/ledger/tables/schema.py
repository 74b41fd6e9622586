"""The ledger's schema: every table, and the conditions of its partial indexes.

Tables of datasets: their sources, their imports and their end.

Tables of runs: their items, events and decisions, their totals, and the jobs that work on them.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    exists,
    false,
    select,
    text,
)

from counterpose_gateway.ledger.tables.columns import Line, Prose, metadata, partial
from counterpose_gateway.ledger.tables.tenants import (
    PENDING_DELIVERIES,
    access_keys,
    access_log,
    blob_uses,
    deliveries,
    idempotency_keys,
    kept_blobs,
    kept_bytes,
    lease_readings,
    ledger_identity,
    loose_digests,
    process_counts,
    spending,
    spending_limits,
    tenant_quotas,
    tenant_usage,
    webhooks,
    worker_readings,
)
from counterpose_gateway.records.tenants import DEFAULT_TENANT

__all__ = [
    "PENDING_DELIVERIES", "access_keys", "access_log", "blob_uses", "deliveries", "idempotency_keys",
    "kept_blobs", "kept_bytes", "lease_readings", "ledger_identity", "loose_digests", "metadata",
    "process_counts", "spending", "spending_limits", "tenant_quotas", "tenant_usage", "webhooks",
    "worker_readings",
]  # fmt: skip

GROUPED_SOURCES = text('"group" IS NOT NULL')

MASKED_SOURCES = text("mask IS NOT NULL")

PAIRED_SOURCES = text("pair IS NOT NULL")
LABELLED_SOURCES = text("labels IS NOT NULL")

OPEN_SHARDS = text("state IN ('pending', 'leased')")
OPEN_IMPORTS = text("state IN ('listing', 'importing')")

datasets = Table(
    "datasets",
    metadata,
    # Longer than a name: the key of a dataset has its tenant in front. SQLite counts no letters.
    Column("name", Line(96).with_variant(Line(160), "postgresql"), primary_key=True),
    Column("classes", JSON, nullable=False),
    Column("fixed_classes", Integer, nullable=False),
    Column("digest", Line(64), nullable=False),
    Column("n_sources", Integer, nullable=False),
    Column("rejected", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("changes", Integer, nullable=False, server_default="0"),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
    Index("datasets_of_tenant", "tenant"),
)
"""``n_sources`` and ``stored_bytes``, its images and their bytes as stored, are kept, not counted.

``digest``: empty after a change, until someone asks for it; ``changes`` counts the changes.
"""

sources = Table(
    "sources",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("id", Line(64), primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("image", Line(64), nullable=False, index=True),
    Column("label", Line(200), nullable=False),
    Column("filename", Line(255), nullable=False),
    Column("caption", Prose),
    Column("group", Line(200)),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("mask", Line(64)),
    Column("pair", Prose),
    Column("labels", Prose),
    UniqueConstraint("dataset", "ordinal"),
    # Partial: few datasets have groups, and the digest of every one asks for them.
    partial("sources_grouped", "dataset", "id", where=GROUPED_SOURCES),
    # Partial, too: whose blob it is, and whether anything names it, is asked of the mask alone.
    partial("sources_masked", "mask", where=MASKED_SOURCES),
    partial("sources_paired", "dataset", "id", where=PAIRED_SOURCES),
    partial("sources_labelled", "dataset", "id", where=LABELLED_SOURCES),
)

imports = Table(
    "imports",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("request", JSON, nullable=False),
    Column("layout", Line(32), nullable=False),
    Column("names", JSON(none_as_null=True)),
    Column("state", Line(16), nullable=False),
    Column("listed", Integer, nullable=False),
    Column("mark", Prose),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("problem", JSON(none_as_null=True)),
    # Partial: all open ones are looked at for each lease, and each idle worker asks twice a second.
    partial("imports_open", "dataset", where=OPEN_IMPORTS),
)
"""How datasets are imported from a URL. ``names``: class names by the numbers that stand for them.

``listed``: shards found so far, the last of which is named by ``mark``; ``fence``, ``attempts`` and
``due_at`` are those of the lease under which one process finds them.
"""

import_shards = Table(
    "import_shards",
    metadata,
    Column("dataset", ForeignKey("imports.dataset"), primary_key=True),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("path", Prose, nullable=False),
    Column("label", Prose),
    Column("files", JSON(none_as_null=True)),
    Column("state", Line(16), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("stamp", Prose),
    Column("changes", Integer, nullable=False, server_default="0"),
    Column("position", BigInteger, nullable=False),
    Column("taken", Integer, nullable=False),
    Column("rejected", Integer, nullable=False),
    Column("rejections", JSON(none_as_null=True)),
    Column("problem", JSON(none_as_null=True)),
    partial("import_shards_open_of_dataset", "dataset", "due_at", "ordinal", where=OPEN_SHARDS),
)
"""A part of an import that one worker reads: a tar, a Parquet file, or some ``files`` of one folder.

``position``: where the part begins that is not recorded yet. ``stamp``: size and version of the shard when
its first images were recorded; another one means that it was changed, which ``changes`` counts.
"""

dataset_ends = Table(
    "dataset_ends",
    metadata,
    # No foreign key: the row is there before its dataset's import, and goes with it.
    Column("dataset", Line(160), primary_key=True),
    Column("expires_at", Float),
    Column("deleting", Boolean, nullable=False, server_default=false()),
)
"""``deleting``: it is hidden from everybody, and its rows are being deleted."""

_ends = dataset_ends.c

KEPT_DATASETS = ~exists().where(_ends.dataset == datasets.c.name, _ends.deleting)
"""The condition on datasets that others may see."""

EXPIRES_AT = (
    select(_ends.expires_at).where(_ends.dataset == datasets.c.name).scalar_subquery().label("expires_at")
)
"""When a dataset of the statement ends."""

OPEN_ITEMS = text("state IN ('pending', 'leased')")

ENDED_ITEMS = text("state IN ('done', 'filtered', 'failed', 'cancelled')")

RUNS_TO_SERVE = text("state IN ('queued', 'in_progress') AND idle_until IS NULL")

IDLE_RUNS = text("idle_until IS NOT NULL")

RUNS_TO_PLAN = text("state IN ('validating', 'finalizing')")

RUNS_OF_PARENTS = text("parent IS NOT NULL")

RUNS_UNDER_WAY = text("state IN ('queued', 'in_progress')")

OPEN_JOBS = text("state IN ('queued', 'in_progress', 'cancelling')")

runs = Table(
    "runs",
    metadata,
    Column("id", Line(64), primary_key=True),
    Column("kind", Line(32), nullable=False),
    Column("state", Line(32), nullable=False),
    Column("dataset", Line(96), nullable=False),
    Column("config", JSON, nullable=False),
    Column("functions", JSON(none_as_null=True)),
    # A column of the run: it is kept as long as the run, and both become durable in one commit.
    Column("idempotency_key", Line(255), unique=True),
    Column("fingerprint", Line(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("served_at", Float, nullable=False),
    Column("problem", JSON(none_as_null=True)),
    Column("total", Integer, nullable=False),
    Column("pending", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("filtered", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    Column("cost", JSON(none_as_null=True)),
    Column("parent", Line(64)),
    Column("name", Line(120)),
    Column("staged", Boolean, nullable=False, server_default=false()),
    Column("stage", Integer, nullable=False, server_default="1"),
    Column("planning_fence", Integer, nullable=False, server_default="0"),
    Column("planning_attempts", Integer, nullable=False, server_default="0"),
    Column("planning_due_at", Float, nullable=False, server_default="0"),
    Column("idle_until", Float),
    Column("plan_sources", JSON(none_as_null=True)),
    Column("trace", Line(64)),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
    Index("runs_newest", "created_at", "id"),
    Index("runs_newest_of_tenant", "tenant", "created_at", "id"),
    # Partial: most runs have ended, and each idle worker loop asks twice a second.
    partial("runs_to_serve", "served_at", "created_at", "id", where=RUNS_TO_SERVE),
    partial("runs_to_serve_of_tenant", "tenant", "served_at", where=RUNS_TO_SERVE),
    partial("runs_idle", "idle_until", where=IDLE_RUNS),
    partial("runs_to_plan", "planning_due_at", "created_at", "id", where=RUNS_TO_PLAN),
    partial("runs_under_way", "created_at", where=RUNS_UNDER_WAY),
    partial("runs_of_parents", "parent", where=RUNS_OF_PARENTS),
)
"""``functions``: the addresses of the functions that the run tests, by name. They hold secrets: only workers
and the plans of child runs read them, and `rows.run` leaves them out.

``cost``: the cost of the recorded items; None until an item is recorded.

``staged``: whether a method plans more stages from the results; ``stage``: the one that opened last. Items
of a later stage are stored before it opens and belong to no total until then: every reader leaves them out.
``planning_*``: the lease under which one process plans the next stage, as items are leased.

``served_at``: its place among the runs to serve, the least first (`runs.turns`). ``idle_until``: no item of
the run is ready before; None if one may be ready now, or if the run has no open items.

``plan_sources``: not null while items of the first stage are missing. Each dataset that they are planned
from, and how many of its sources the plan is made of: those added since have the larger ordinals.

``trace``: the ``traceparent`` of the request that made the run, if that was traced.
"""

items = Table(
    "items",
    metadata,
    Column("id", Line(96), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("item_key", Line(255), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("kind", Line(32), nullable=False),
    Column("item_group", Line(64), nullable=False),
    Column("source_image", Line(64), nullable=False),
    Column("label", Line(200), nullable=False),
    Column("edit_type", Line(32)),
    Column("slot", Integer, nullable=False),
    Column("stage", Integer, nullable=False, server_default="1"),
    Column("caption", Prose),
    Column("instruction", JSON(none_as_null=True)),
    Column("labels", JSON(none_as_null=True)),
    Column("state", Line(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("worker", Line(255)),
    Column("due_at", Float, nullable=False),
    Column("reason", Line(255)),
    Column("code", Line(64)),
    Column("detail", Prose),
    Column("result", JSON(none_as_null=True)),
    UniqueConstraint("run_id", "item_key"),
    UniqueConstraint("run_id", "ordinal"),
    # Partial: most items are finished. Its order is the order of leases, so the first entry is the next item.
    partial("items_ready", "run_id", "stage", "due_at", "ordinal", where=OPEN_ITEMS),
    # A source's items are leased under the write lock: a stage may have 100,000 open ones of other sources.
    partial("items_open_of_group", "run_id", "item_group", "stage", where=OPEN_ITEMS),
    # Partial: it costs one entry at an item's end, and none while items are planned or leased.
    partial("items_ended", "run_id", "state", "ordinal", where=ENDED_ITEMS),
)
"""``due_at``, in lease time: when a pending item may be leased, when a leased one's lease ends.

``instruction``: what the stage that planned the item asks of it, in the words of the run's method.
"""

events = Table(
    "events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("state", Line(32), nullable=False),
    Column("counts", JSON, nullable=False),
    Column("message", Prose, nullable=False),
    Index("events_of_run", "run_id", "id"),
    # Without it SQLite reuses a deleted event's number, and a stream would skip the new event.
    sqlite_autoincrement=True,
)

shift_decisions = Table(
    "shift_decisions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("shift", Line(500), nullable=False),
    Column("checkpoint", Line(255), nullable=False),
    Column("author", Line(200), nullable=False),
    Column("decided_at", Float, nullable=False),
    Column("percentile", Float),
    Column("threshold", Float),
    Column("failing_above", JSON, nullable=False),
    Index("shift_decisions_of_run", "run_id", "id"),
    sqlite_autoincrement=True,
)
"""Rows are only added: the newest of a shift is in force, the others are its history."""

deleted_runs = Table(
    "deleted_runs",
    metadata,
    Column("id", Line(64), primary_key=True),
    Column("kind", Line(32), nullable=False),
    Column("deleted_at", Float, nullable=False),
    Column("cost", JSON(none_as_null=True)),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
)
"""What is left of a run: why its address answers no more, and what it cost."""

tallies = Table(
    "tallies",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("active_runs", Integer, nullable=False),
    Column("cost", JSON, nullable=False),
    Column("open_items", BigInteger, nullable=False, server_default="0"),
    Column("attempts", JSON, nullable=False, server_default="{}"),
)
"""Totals over all runs: how many have not ended, what all cost, how many items are open, and how often an
attempt at an item of each kind came to what, deleted runs too.
"""

jobs = Table(
    "jobs",
    metadata,
    Column("id", Line(64), primary_key=True),
    Column("cluster", Line(96), nullable=False),
    Column("workers", Integer, nullable=False),
    Column("kind", Line(32), nullable=False),
    Column("request", JSON, nullable=False),
    Column("state", Line(32), nullable=False),
    Column("run_id", Line(64)),
    Column("idempotency_key", Line(255), unique=True),
    Column("fingerprint", Line(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("message", Prose, nullable=False),
    Column("problem", JSON(none_as_null=True)),
    Column("attempt", Integer, nullable=False),
    Column("fruitless", Integer, nullable=False),
    Column("progress", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("look_at", Float, nullable=False),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
    Index("jobs_newest", "created_at", "id"),
    partial("jobs_to_look_at", "look_at", where=OPEN_JOBS),
)
"""``attempt``: the number of the newest one, 0 before. ``progress``: what the run had come to when it began;
``fruitless``: how many in a row ended without any more. ``fence`` and ``look_at``: the lease under which one
gateway looks after the job, as items are leased.
"""

job_attempts = Table(
    "job_attempts",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("submission_id", Line(128), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("submitted_at", Float),
    Column("seen_at", Float),
    Column("ended_at", Float),
    Column("quiet_since", Float, nullable=False),
    Column("detail", Prose),
)
"""``quiet_since``, in lease time: when a worker of the attempt reported last, or when it was submitted."""
