"""Glances: the columns of a run's row that its answer shows, as the driver gives them.

Two equal glances mean an unchanged run, so that nothing need be decoded, checked and written again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_gateway.ledger.tables import rows, schema

_UNSEEN = frozenset(
    {
        "config", "functions", "idempotency_key", "fingerprint", "served_at", "cost", "staged",
        "planning_fence", "planning_attempts", "planning_due_at", "tenant",
    }
)  # fmt: skip
"""Columns that no answer shows, and the configuration, which never changes and may be long."""

COLUMNS = tuple(column for column in schema.runs.c if column.name not in _UNSEEN)
"""All others, so that a column that is added later is looked at, too."""

_NAMES = tuple(column.name for column in COLUMNS)
_STATE, _KIND = _NAMES.index("state"), _NAMES.index("kind")

GLANCE = (
    f"SELECT {', '.join(_NAMES)} FROM runs "
    "WHERE id = :run AND state <> 'deleting' AND (:tenant IS NULL OR tenant = :tenant)"
)
"""The look at one run of a tenant's, or of anybody's, for SQLite's driver."""


class Glance(NamedTuple):
    """The visible columns of a run at one moment."""

    values: tuple[Any, ...]

    @property
    def state(self) -> str:
        """The state of the run."""
        return str(self.values[_STATE])

    @property
    def kind(self) -> str:
        """The kind of the run."""
        return str(self.values[_KIND])

    @property
    def counts(self) -> RequestCounts:
        """The run's items by state."""
        return rows.counts(dict(zip(_NAMES, self.values, strict=True)))

    def run(self, config: dict[str, Any]) -> Run:
        """Return the run with a configuration, which a glance leaves out."""
        row = dict(zip(_NAMES, self.values, strict=True))
        # SQLite's driver gives JSON as text, PostgreSQL's decodes it.
        if isinstance(row["problem"], str):
            row["problem"] = json.loads(row["problem"])
        return rows.run({**row, "config": config})
