"""The verdict of a gate that has ended, for the message that tells of a failed one."""

from __future__ import annotations

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.gates import GateSummary
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.summaries.summaries import Summary


def gate_summary(ledger: Ledger, store: BlobStore, run_id: str) -> GateSummary:
    """Sum up a gate of any tenant.

    Raises:
        NotFound: it was deleted meanwhile.
    """
    return Summary(GATE, run_id, None)(RecordedRuns(ledger=ledger, store=store))
