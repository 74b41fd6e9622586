"""The processes of a gateway that make summaries and reports, each over its own ledger and store."""

from __future__ import annotations

from functools import partial

from counterpose_core.blobs import BlobStore
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.joined import JoinedWork, summing_processes
from counterpose_gateway.summaries.summaries import KEPT


def summary_processes(settings: GatewaySettings) -> JoinedWork:
    """Return the processes that the settings ask for; the caller closes them."""
    opened = partial(recorded_runs, settings.database_url, settings.store_url, column_folder(settings))
    return JoinedWork(summing_processes(settings.summary_processes, opened), KEPT)


def column_folder(settings: GatewaySettings) -> ColumnFolder | None:
    """Return where the settings keep columns, if at all."""
    return ColumnFolder(settings.columns_dir, settings.columns_bytes) if settings.columns_bytes else None


def recorded_runs(database_url: str, store_url: str, columns: ColumnFolder | None = None) -> RecordedRuns:
    """Open ledger and store in this process; the gateway has looked for damage already."""
    ledger = Ledger(database_url, check_seconds=0)
    return RecordedRuns(ledger=ledger, store=BlobStore(store_url), columns=columns)
