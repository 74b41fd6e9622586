"""Create every table, as of the first release.

Frozen: a later change of a table is a revision of its own, so this one names no table of the code.

Revision ID: 0100
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

# Above the numbers of the revisions before the first release, whose ledgers are refused.
revision = "0100"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
# SQLite counts no letters.
_DATASET = sa.String(96).with_variant(sa.String(160), "postgresql")
_OPEN = "state IN ('pending', 'leased')"
_ENDED = "state IN ('done', 'filtered', 'failed', 'cancelled')"
_TO_SERVE = "state IN ('queued', 'in_progress') AND idle_until IS NULL"
_TO_PLAN = "state IN ('validating', 'finalizing')"
_SHARDS = 16


def upgrade() -> None:
    """Create the tables, referenced ones first, and the rows of the totals."""
    _create_datasets()
    _create_imports()
    _create_runs()
    _create_items()
    _create_histories()
    _create_jobs()
    _create_webhooks()
    _create_access()
    _create_measurements()


def _create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("name", _DATASET, primary_key=True),
        sa.Column("classes", sa.JSON, nullable=False),
        sa.Column("fixed_classes", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("n_sources", sa.Integer, nullable=False),
        sa.Column("rejected", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("changes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
    )
    op.create_table(
        "sources",
        sa.Column("dataset", _DATASET, sa.ForeignKey("datasets.name"), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("image", sa.String(64), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("caption", sa.Text),
        sa.Column("width", sa.Integer, nullable=False),
        sa.Column("height", sa.Integer, nullable=False),
        sa.Column("group", sa.String(200)),
        sa.UniqueConstraint("dataset", "ordinal"),
        sa.Index("ix_sources_image", "image"),
        _partial("sources_grouped", "dataset", "id", where='"group" IS NOT NULL'),
    )
    op.create_table(
        "dataset_ends",
        sa.Column("dataset", sa.String(160), primary_key=True),
        sa.Column("expires_at", sa.Float),
        sa.Column("deleting", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "loose_digests",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("loosened_at", sa.Float, nullable=False),
    )


def _create_imports() -> None:
    op.create_table(
        "imports",
        sa.Column("dataset", _DATASET, sa.ForeignKey("datasets.name"), primary_key=True),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("layout", sa.String(32), nullable=False),
        sa.Column("names", sa.JSON),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("listed", sa.Integer, nullable=False),
        sa.Column("mark", sa.Text),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("problem", sa.JSON),
    )
    op.create_table(
        "import_shards",
        sa.Column("dataset", _DATASET, sa.ForeignKey("imports.dataset"), primary_key=True),
        sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("label", sa.Text),
        sa.Column("files", sa.JSON),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("stamp", sa.Text),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.Integer, nullable=False),
        sa.Column("rejected", sa.Integer, nullable=False),
        sa.Column("rejections", sa.JSON),
        sa.Column("problem", sa.JSON),
        sa.Column("changes", sa.Integer, nullable=False, server_default="0"),
        _partial("import_shards_open", "due_at", "dataset", "ordinal", where=_OPEN),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("dataset", sa.String(96), nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("idempotency_key", sa.String(255), unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("served_at", sa.Float, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("pending", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("filtered", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("cost", sa.JSON),
        sa.Column("parent", sa.String(64)),
        sa.Column("staged", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("stage", sa.Integer, nullable=False, server_default="1"),
        sa.Column("planning_fence", sa.Integer, nullable=False, server_default="0"),
        sa.Column("planning_attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("planning_due_at", sa.Float, nullable=False, server_default="0"),
        sa.Column("name", sa.String(120)),
        sa.Column("functions", sa.JSON),
        sa.Column("idle_until", sa.Float),
        sa.Column("plan_sources", sa.JSON),
        sa.Column("trace", sa.String(64)),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
        _partial("runs_idle", "idle_until", where="idle_until IS NOT NULL"),
        sa.Index("runs_newest", "created_at", "id"),
        sa.Index("runs_newest_of_tenant", "tenant", "created_at", "id"),
        _partial("runs_of_parents", "parent", where="parent IS NOT NULL"),
        _partial("runs_to_plan", "planning_due_at", "created_at", "id", where=_TO_PLAN),
        _partial("runs_to_serve", "served_at", "created_at", "id", where=_TO_SERVE),
        _partial("runs_under_way", "created_at", where="state IN ('queued', 'in_progress')"),
    )
    op.create_table(
        "deleted_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("deleted_at", sa.Float, nullable=False),
        sa.Column("cost", sa.JSON),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
    )


def _create_items() -> None:
    op.create_table(
        "items",
        sa.Column("id", sa.String(96), primary_key=True),
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("item_key", sa.String(255), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("item_group", sa.String(64), nullable=False),
        sa.Column("source_image", sa.String(64), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("edit_type", sa.String(32)),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("caption", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(255)),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("reason", sa.String(255)),
        sa.Column("code", sa.String(64)),
        sa.Column("detail", sa.Text),
        sa.Column("result", sa.JSON),
        sa.Column("stage", sa.Integer, nullable=False, server_default="1"),
        sa.Column("instruction", sa.JSON),
        sa.UniqueConstraint("run_id", "item_key"),
        sa.UniqueConstraint("run_id", "ordinal"),
        _partial("items_ended", "run_id", "state", "ordinal", where=_ENDED),
        _partial("items_open_of_group", "run_id", "item_group", "stage", where=_OPEN),
        _partial("items_ready", "run_id", "stage", "due_at", "ordinal", where=_OPEN),
    )
    op.create_table(
        "blob_uses",
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("ref", sa.String(64), primary_key=True),
        sa.Index("blob_uses_of_blob", "ref", "run_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "kept_blobs",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("ref", sa.String(64), primary_key=True),
        sa.Column("kept_at", sa.Float, nullable=False),
    )


def _create_histories() -> None:
    op.create_table(
        "events",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Index("events_of_run", "run_id", "id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "shift_decisions",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("shift", sa.String(500), nullable=False),
        sa.Column("checkpoint", sa.String(255), nullable=False),
        sa.Column("author", sa.String(200), nullable=False),
        sa.Column("decided_at", sa.Float, nullable=False),
        sa.Column("percentile", sa.Float),
        sa.Column("threshold", sa.Float),
        sa.Column("failing_above", sa.JSON, nullable=False),
        sa.Index("shift_decisions_of_run", "run_id", "id"),
        sqlite_autoincrement=True,
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("cluster", sa.String(96), nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("idempotency_key", sa.String(255), unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fruitless", sa.Integer, nullable=False),
        sa.Column("progress", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("look_at", sa.Float, nullable=False),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
        sa.Index("jobs_newest", "created_at", "id"),
        _partial("jobs_to_look_at", "look_at", where="state IN ('queued', 'in_progress', 'cancelling')"),
    )
    op.create_table(
        "job_attempts",
        sa.Column("job_id", sa.String(64), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("submission_id", sa.String(128), nullable=False, unique=True),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("submitted_at", sa.Float),
        sa.Column("seen_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("quiet_since", sa.Float, nullable=False),
        sa.Column("detail", sa.Text),
    )


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("secret", sa.String(100), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("message", sa.String(64), nullable=False, unique=True),
        sa.Column("webhook_id", sa.String(64), sa.ForeignKey("webhooks.id"), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("delivered_at", sa.Float),
        sa.Column("failure", sa.String(32)),
        sa.Column("detail", sa.Text),
        _partial("webhook_deliveries_due", "due_at", where="state = 'pending'"),
        sa.Index("webhook_deliveries_of_run", "run_id", "id"),
        sa.Index("webhook_deliveries_of_webhook", "webhook_id", "id"),
        sqlite_autoincrement=True,
    )


def _create_access() -> None:
    op.create_table(
        "access_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("revoked_at", sa.Float),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
    )
    op.create_table(
        "access_log",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("holder", sa.String(32), nullable=False),
        sa.Column("method", sa.String(16), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("tenant", sa.String(48), nullable=False, server_default="default"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(255), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("claimed_at", sa.Float, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.Text),
    )
    op.create_table(
        "tenant_quotas",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("images", sa.BigInteger),
        sa.Column("gpu_seconds", sa.Float),
    )
    op.create_table(
        "tenant_usage",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("month", sa.String(7), primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("images", sa.BigInteger, nullable=False),
        sa.Column("gpu_seconds", sa.Float, nullable=False),
    )


def _create_measurements() -> None:
    op.create_table(
        "process_counts",
        sa.Column("series", sa.String(200), primary_key=True),
        sa.Column("amount", sa.Float, nullable=False),
    )
    op.create_table(
        "worker_readings",
        sa.Column("worker", sa.String(255), primary_key=True),
        sa.Column("seen_at", sa.Float, nullable=False),
        sa.Column("reading", sa.JSON, nullable=False),
    )
    op.create_table(
        "lease_readings",
        sa.Column("machine", sa.String(100), primary_key=True),
        sa.Column("lease_time", sa.Float, nullable=False),
        sa.Column("reading", sa.Float, nullable=False),
    )
    tallies = op.create_table(
        "tallies",
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("active_runs", sa.Integer, nullable=False),
        sa.Column("cost", sa.JSON, nullable=False),
        sa.Column("open_items", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("attempts", sa.JSON, nullable=False, server_default="{}"),
    )
    rows = [{"shard": shard, "active_runs": 0, "cost": {}} for shard in range(_SHARDS)]
    op.bulk_insert(tallies, rows)


def _partial(name: str, *columns: str, where: str) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
