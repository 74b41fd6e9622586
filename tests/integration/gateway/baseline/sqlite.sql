-- The tables of the revision 0101. Frozen: a later change of a table is a revision of its own.
CREATE TABLE datasets (
  name VARCHAR(96) NOT NULL,
  classes JSON NOT NULL,
  fixed_classes INTEGER NOT NULL,
  digest VARCHAR(64) NOT NULL,
  n_sources INTEGER NOT NULL,
  rejected JSON NOT NULL,
  created_at FLOAT NOT NULL,
  stored_bytes BIGINT DEFAULT '0' NOT NULL,
  changes INTEGER DEFAULT '0' NOT NULL,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (name)
);

CREATE TABLE dataset_ends (
  dataset VARCHAR(160) NOT NULL,
  expires_at FLOAT,
  deleting BOOLEAN DEFAULT 0 NOT NULL,
  PRIMARY KEY (dataset)
);

CREATE TABLE process_counts (
  series VARCHAR(200) NOT NULL,
  amount FLOAT NOT NULL,
  PRIMARY KEY (series)
);

CREATE TABLE worker_readings (
  worker VARCHAR(255) NOT NULL,
  seen_at FLOAT NOT NULL,
  reading JSON NOT NULL,
  PRIMARY KEY (worker)
);

CREATE TABLE lease_readings (
  machine VARCHAR(100) NOT NULL,
  lease_time FLOAT NOT NULL,
  reading FLOAT NOT NULL,
  PRIMARY KEY (machine)
);

CREATE TABLE idempotency_keys (
  scope VARCHAR(255) NOT NULL,
  "key" VARCHAR(255) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  claimed_at FLOAT NOT NULL,
  status INTEGER,
  body TEXT,
  PRIMARY KEY (scope, "key")
);

CREATE TABLE runs (
  id VARCHAR(64) NOT NULL,
  kind VARCHAR(32) NOT NULL,
  state VARCHAR(32) NOT NULL,
  dataset VARCHAR(96) NOT NULL,
  config JSON NOT NULL,
  functions JSON,
  idempotency_key VARCHAR(255),
  fingerprint VARCHAR(64) NOT NULL,
  created_at FLOAT NOT NULL,
  started_at FLOAT,
  ended_at FLOAT,
  served_at FLOAT NOT NULL,
  problem JSON,
  total INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  done INTEGER NOT NULL,
  filtered INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  cost JSON,
  parent VARCHAR(64),
  name VARCHAR(120),
  staged BOOLEAN DEFAULT 0 NOT NULL,
  stage INTEGER DEFAULT '1' NOT NULL,
  planning_fence INTEGER DEFAULT '0' NOT NULL,
  planning_attempts INTEGER DEFAULT '0' NOT NULL,
  planning_due_at FLOAT DEFAULT '0' NOT NULL,
  idle_until FLOAT,
  plan_sources JSON,
  trace VARCHAR(64),
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (idempotency_key)
);

CREATE INDEX runs_under_way ON runs (created_at) WHERE state IN ('queued', 'in_progress');

CREATE INDEX runs_idle ON runs (idle_until) WHERE idle_until IS NOT NULL;

CREATE INDEX runs_of_parents ON runs (parent) WHERE parent IS NOT NULL;

CREATE INDEX runs_newest_of_tenant ON runs (tenant, created_at, id);

CREATE INDEX runs_to_plan ON runs (planning_due_at, created_at, id) WHERE state IN ('validating', 'finalizing');

CREATE INDEX runs_newest ON runs (created_at, id);

CREATE INDEX runs_to_serve ON runs (served_at, created_at, id) WHERE state IN ('queued', 'in_progress') AND idle_until IS NULL;

CREATE TABLE deleted_runs (
  id VARCHAR(64) NOT NULL,
  kind VARCHAR(32) NOT NULL,
  deleted_at FLOAT NOT NULL,
  cost JSON,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE tallies (
  shard INTEGER NOT NULL,
  active_runs INTEGER NOT NULL,
  cost JSON NOT NULL,
  open_items BIGINT DEFAULT '0' NOT NULL,
  attempts JSON DEFAULT '{}' NOT NULL,
  PRIMARY KEY (shard)
);

CREATE TABLE jobs (
  id VARCHAR(64) NOT NULL,
  cluster VARCHAR(96) NOT NULL,
  workers INTEGER NOT NULL,
  kind VARCHAR(32) NOT NULL,
  request JSON NOT NULL,
  state VARCHAR(32) NOT NULL,
  run_id VARCHAR(64),
  idempotency_key VARCHAR(255),
  fingerprint VARCHAR(64) NOT NULL,
  created_at FLOAT NOT NULL,
  started_at FLOAT,
  ended_at FLOAT,
  message TEXT NOT NULL,
  problem JSON,
  attempt INTEGER NOT NULL,
  fruitless INTEGER NOT NULL,
  progress INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  look_at FLOAT NOT NULL,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (idempotency_key)
);

CREATE INDEX jobs_newest ON jobs (created_at, id);

CREATE INDEX jobs_to_look_at ON jobs (look_at) WHERE state IN ('queued', 'in_progress', 'cancelling');

CREATE TABLE access_keys (
  id VARCHAR(32) NOT NULL,
  name VARCHAR(120) NOT NULL,
  digest VARCHAR(64) NOT NULL,
  scopes JSON NOT NULL,
  created_at FLOAT NOT NULL,
  expires_at FLOAT,
  revoked_at FLOAT,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE access_log (
  id INTEGER NOT NULL,
  at FLOAT NOT NULL,
  holder VARCHAR(32) NOT NULL,
  method VARCHAR(16) NOT NULL,
  path TEXT NOT NULL,
  status INTEGER NOT NULL,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE tenant_quotas (
  tenant VARCHAR(48) NOT NULL,
  images BIGINT,
  gpu_seconds FLOAT,
  PRIMARY KEY (tenant)
);

CREATE TABLE tenant_usage (
  tenant VARCHAR(48) NOT NULL,
  month VARCHAR(7) NOT NULL,
  shard INTEGER NOT NULL,
  images BIGINT NOT NULL,
  gpu_seconds FLOAT NOT NULL,
  PRIMARY KEY (tenant, month, shard)
);

CREATE TABLE kept_blobs (
  tenant VARCHAR(48) NOT NULL,
  ref VARCHAR(64) NOT NULL,
  kept_at FLOAT NOT NULL,
  PRIMARY KEY (tenant, ref)
);

CREATE TABLE loose_digests (
  digest VARCHAR(64) NOT NULL,
  loosened_at FLOAT NOT NULL,
  PRIMARY KEY (digest)
);

CREATE TABLE webhooks (
  id VARCHAR(64) NOT NULL,
  url VARCHAR(2000) NOT NULL,
  events JSON NOT NULL,
  secret VARCHAR(100) NOT NULL,
  created_at FLOAT NOT NULL,
  tenant VARCHAR(48) DEFAULT 'default' NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE sources (
  dataset VARCHAR(96) NOT NULL,
  id VARCHAR(64) NOT NULL,
  ordinal INTEGER NOT NULL,
  image VARCHAR(64) NOT NULL,
  label VARCHAR(200) NOT NULL,
  filename VARCHAR(255) NOT NULL,
  caption TEXT,
  "group" VARCHAR(200),
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  mask VARCHAR(64),
  PRIMARY KEY (dataset, id),
  UNIQUE (dataset, ordinal),
  FOREIGN KEY(dataset) REFERENCES datasets (name)
);

CREATE INDEX sources_grouped ON sources (dataset, id) WHERE "group" IS NOT NULL;

CREATE INDEX sources_masked ON sources (mask) WHERE mask IS NOT NULL;

CREATE INDEX ix_sources_image ON sources (image);

CREATE TABLE imports (
  dataset VARCHAR(96) NOT NULL,
  request JSON NOT NULL,
  layout VARCHAR(32) NOT NULL,
  names JSON,
  state VARCHAR(16) NOT NULL,
  listed INTEGER NOT NULL,
  mark TEXT,
  fence INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  due_at FLOAT NOT NULL,
  problem JSON,
  PRIMARY KEY (dataset),
  FOREIGN KEY(dataset) REFERENCES datasets (name)
);

CREATE TABLE items (
  id VARCHAR(96) NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  item_key VARCHAR(255) NOT NULL,
  ordinal INTEGER NOT NULL,
  kind VARCHAR(32) NOT NULL,
  item_group VARCHAR(64) NOT NULL,
  source_image VARCHAR(64) NOT NULL,
  label VARCHAR(200) NOT NULL,
  edit_type VARCHAR(32),
  slot INTEGER NOT NULL,
  stage INTEGER DEFAULT '1' NOT NULL,
  caption TEXT,
  instruction JSON,
  state VARCHAR(16) NOT NULL,
  attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  worker VARCHAR(255),
  due_at FLOAT NOT NULL,
  reason VARCHAR(255),
  code VARCHAR(64),
  detail TEXT,
  result JSON,
  PRIMARY KEY (id),
  UNIQUE (run_id, item_key),
  UNIQUE (run_id, ordinal),
  FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE INDEX items_open_of_group ON items (run_id, item_group, stage) WHERE state IN ('pending', 'leased');

CREATE INDEX items_ready ON items (run_id, stage, due_at, ordinal) WHERE state IN ('pending', 'leased');

CREATE INDEX items_ended ON items (run_id, state, ordinal) WHERE state IN ('done', 'filtered', 'failed', 'cancelled');

CREATE TABLE events (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_id VARCHAR(64) NOT NULL,
  state VARCHAR(32) NOT NULL,
  counts JSON NOT NULL,
  message TEXT NOT NULL,
  FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE INDEX events_of_run ON events (run_id, id);

CREATE TABLE shift_decisions (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_id VARCHAR(64) NOT NULL,
  shift VARCHAR(500) NOT NULL,
  checkpoint VARCHAR(255) NOT NULL,
  author VARCHAR(200) NOT NULL,
  decided_at FLOAT NOT NULL,
  percentile FLOAT,
  threshold FLOAT,
  failing_above JSON NOT NULL,
  FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE INDEX shift_decisions_of_run ON shift_decisions (run_id, id);

CREATE TABLE job_attempts (
  job_id VARCHAR(64) NOT NULL,
  number INTEGER NOT NULL,
  submission_id VARCHAR(128) NOT NULL,
  created_at FLOAT NOT NULL,
  submitted_at FLOAT,
  seen_at FLOAT,
  ended_at FLOAT,
  quiet_since FLOAT NOT NULL,
  detail TEXT,
  PRIMARY KEY (job_id, number),
  FOREIGN KEY(job_id) REFERENCES jobs (id),
  UNIQUE (submission_id)
);

CREATE TABLE blob_uses (
  run_id VARCHAR(64) NOT NULL,
  ref VARCHAR(64) NOT NULL,
  PRIMARY KEY (run_id, ref),
  FOREIGN KEY(run_id) REFERENCES runs (id)
)
 WITHOUT ROWID;

CREATE INDEX blob_uses_of_blob ON blob_uses (ref, run_id);

CREATE TABLE webhook_deliveries (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  message VARCHAR(64) NOT NULL,
  webhook_id VARCHAR(64) NOT NULL,
  run_id VARCHAR(64) NOT NULL,
  event VARCHAR(32) NOT NULL,
  body TEXT NOT NULL,
  state VARCHAR(16) NOT NULL,
  attempts INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  due_at FLOAT NOT NULL,
  created_at FLOAT NOT NULL,
  delivered_at FLOAT,
  failure VARCHAR(32),
  detail TEXT,
  UNIQUE (message),
  FOREIGN KEY(webhook_id) REFERENCES webhooks (id)
);

CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (webhook_id, id);

CREATE INDEX webhook_deliveries_of_run ON webhook_deliveries (run_id, id);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at) WHERE state = 'pending';

CREATE TABLE import_shards (
  dataset VARCHAR(96) NOT NULL,
  ordinal INTEGER NOT NULL,
  path TEXT NOT NULL,
  label TEXT,
  files JSON,
  state VARCHAR(16) NOT NULL,
  fence INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  due_at FLOAT NOT NULL,
  stamp TEXT,
  changes INTEGER DEFAULT '0' NOT NULL,
  position BIGINT NOT NULL,
  taken INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  rejections JSON,
  problem JSON,
  PRIMARY KEY (dataset, ordinal),
  FOREIGN KEY(dataset) REFERENCES imports (dataset)
);

CREATE INDEX import_shards_open ON import_shards (due_at, dataset, ordinal) WHERE state IN ('pending', 'leased');
