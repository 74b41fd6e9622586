"""Summaries and reports, made again only when the run has moved on."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from faultline_core.blobs import BlobStore
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_gateway.ledger import Ledger
from faultline_gateway.reports.report import render
from faultline_gateway.workflows.stress_test import summarize

KEPT = 32


class Summaries:
    """What the items of a run come to; bootstraps take seconds, so the last few answers are kept."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self._store = store
        # The lock keeps the order of the kept answers whole while several threads ask.
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, int], StressTestSummary] = OrderedDict()

    def summary(self, run_id: str) -> StressTestSummary:
        """Return the figures of a run as it stands.

        Raises:
            NotFound: there is no such run.
        """
        # Nothing about a run changes without an event, so the newest event's id names its state.
        # Read before the items: after a step in between the next call sums up again and serves nothing old.
        key = (run_id, self._ledger.last_event(run_id).id)
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return known
        return self._keep(key, summarize(self._ledger.run(run_id), list(self._ledger.items(run_id))))

    def report(self, run_id: str) -> str:
        """Return the report of a run as one HTML document.

        Raises:
            NotFound: there is no such run.
        """
        summary = self.summary(run_id)
        items = list(self._ledger.items(run_id))
        return render(summary, self._ledger.run(run_id), items, self._store.get)

    def _keep(self, key: tuple[str, int], summary: StressTestSummary) -> StressTestSummary:
        with self._lock:
            self._kept[key] = summary
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return summary
