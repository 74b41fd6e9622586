"""What the routes ask of a benchmark that runs or has run: summaries, inspections, thresholds."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from faultline_core.blobs import BlobStore
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import BenchmarkSource, PictureItem, ShiftBenchmarkConfig
from faultline_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from faultline_core.types import BlobRef
from faultline_gateway.ledger import Ledger
from faultline_gateway.workflows.benchmark_summary import summarize_benchmark
from faultline_gateway.workflows.threshold_decisions import thresholds_in_force
from faultline_gateway.workflows.threshold_inspection import ShiftPictures, decided, inspect
from faultline_gateway.workflows.unsearched_pictures import SearchedFolder

KEPT = 16

_Key = tuple[str, int, int, float]


class BenchmarkResults:
    """The figures and thresholds of benchmarks; the last few summaries are kept, as draws take seconds."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self._folder = SearchedFolder(store.get, self._file_names)
        # The lock keeps the order of the kept answers whole while several threads ask.
        self._lock = Lock()
        self._kept: OrderedDict[_Key, ShiftBenchmarkSummary] = OrderedDict()

    def summary(self, run_id: str, object_percentile: float) -> ShiftBenchmarkSummary:
        """Return the figures of a benchmark as it stands, under the thresholds in force.

        Raises:
            NotFound: there is no such run.
        """
        # A summary hangs on the run's events, on what people decided, and on nothing else. Both are read
        # before the items: what happens in between is summed up by the next call.
        event = self._ledger.last_event(run_id).id
        decisions = self._ledger.shift_decisions(run_id)
        key = (run_id, event, decisions[-1].id if decisions else 0, object_percentile)
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return known
        found = summarize_benchmark(
            self._ledger.run(run_id),
            self._ledger.items_of(run_id, PictureItem),
            decisions,
            object_percentile=object_percentile,
            folder=self._folder,
        )
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def inspections(self, run_id: str, shift: str, source: BenchmarkSource | None) -> Inspections:
        """Return what to look at before a shift's threshold is set.

        Raises:
            NotFound: there is no such run or shift.
            InvalidRequest: the source is none of the benchmark's.
            DatasetEmpty: there is no picture of the shift yet.
        """
        return inspect(ShiftPictures.of(self._items(run_id), self._config(run_id), shift, source))

    def decide(self, run_id: str, shift: str, body: ShiftThresholdSet) -> ShiftThresholdDecision:
        """Keep what somebody decided, and return it as it is kept.

        Raises:
            NotFound: there is no such run or shift.
            InvalidRequest, DatasetEmpty: nothing can be decided so; see `threshold_inspection.decided`.
        """
        seen = ShiftPictures.of(self._items(run_id), self._config(run_id), shift, body.source)
        return self._ledger.add_shift_decision(run_id, decided(seen, body, self._ledger.now()))

    def thresholds(self, run_id: str) -> ShiftThresholds:
        """Return the thresholds in force and everything that was decided.

        Raises:
            NotFound: there is no such run.
        """
        config, decisions = self._config(run_id), self._ledger.shift_decisions(run_id)
        return ShiftThresholds(in_force=thresholds_in_force(config, decisions), decisions=decisions)

    def _file_names(self, dataset: str) -> dict[BlobRef, str]:
        return {source.image: source.filename for source in self._ledger.sources(dataset)}

    def _config(self, run_id: str) -> ShiftBenchmarkConfig:
        return ShiftBenchmarkConfig.model_validate(self._ledger.run(run_id).resolved_config)

    def _items(self, run_id: str) -> list[PictureItem]:
        return list(self._ledger.items_of(run_id, PictureItem))
