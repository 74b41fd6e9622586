"""A program that delivers a ledger's messages until it is killed: ``python mortal_delivery.py URL LEASE``."""

from __future__ import annotations

import asyncio
import sys

from counterpose_core.contract.gates import GateSummary
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.webhooks.delivery import Deliveries
from counterpose_gateway.webhooks.target import Target


def no_gate(run_id: str) -> GateSummary:
    """Judge no gate, as there is none."""
    raise NotFound(f"there is no gate {run_id!r}")


def main(url: str, lease_seconds: float) -> None:
    """Deliver what is due."""
    target = Target(private=True)
    asyncio.run(Deliveries(Ledger(url).webhooks, target, no_gate, lease_seconds=lease_seconds).keep())


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
