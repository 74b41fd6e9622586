"""A shift benchmark taken by its id: as every run, and thresholds are set on it that re-generate nothing."""

from __future__ import annotations

from pathlib import Path

from faultline._calls import Call, reading, segment
from faultline._exported_runs import AsyncExportedRun, ExportedRun
from faultline._exports import ExportLayout
from faultline._run_calls import Params, RunCalls
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import BenchmarkSource, PictureItem
from faultline_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)

SHIFT_BENCHMARKS = RunCalls("shift-benchmark", PictureItem, ShiftBenchmarkSummary)


class ShiftBenchmark(ExportedRun[PictureItem, ShiftBenchmarkSummary]):
    """A shift benchmark, followed by blocking calls."""

    _calls = SHIFT_BENCHMARKS

    def summary(self, *, object_percentile: float | None = None) -> ShiftBenchmarkSummary:
        """The figures, each with its interval and n.

        ``object_percentile`` (0 to 100) of each class's real pictures is the least that shows the class;
        another one than the default judges the same pictures anew.
        """
        return self._sender.send(self._calls.summary(self.id, _percentile(object_percentile)))

    def inspections(self, shift: str, *, source: BenchmarkSource | None = None) -> Inspections:
        """What to look at before a threshold of ``shift`` is set: its pictures around fixed percentiles.

        Raises:
            NotFound: the benchmark has no such shift.
            DatasetEmpty: there is no picture of it yet.
        """
        return self._sender.send(inspections_call(self.id, shift, source))

    def shift_thresholds(self) -> ShiftThresholds:
        """The thresholds in force, and every decision that was made."""
        return self._sender.send(thresholds_call(self.id))

    def set_shift_threshold(
        self, shift: str, threshold: float | None, author: str, *, source: BenchmarkSource | None = None
    ) -> ShiftThresholdDecision:
        """Decide from which similarity on pictures show ``shift``; None lets nothing pass.

        What was decided is kept under its ``author``, and summary and report go by the newest decision.
        """
        body = _decision({"threshold": threshold, "author": author}, source)
        return self._sender.send(decide_call(self.id, shift, body))

    def judge_shift(
        self, shift: str, shows: dict[str, bool], author: str, *, source: BenchmarkSource | None = None
    ) -> ShiftThresholdDecision:
        """Say of every inspected picture, by its item's id, whether it shows ``shift``.

        The lowest percentile at which all do becomes the threshold (Dataset Interfaces, A.3).

        Raises:
            InvalidRequest: a picture that was inspected was not judged, or pictures are still being made.
        """
        body = _decision({"shows": shows, "author": author}, source)
        return self._sender.send(decide_call(self.id, shift, body))

    def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        found: bool = False,
    ) -> Path:
        """Write the pictures that were kept into the new ``folder``; as `StressTest.export`.

        ``found`` adds the photographs: real, retrieved, scraped and brought ones. They are not ours, and
        they carry no mark of synthetic media.
        """
        return self._exported(folder, layout, dropped=dropped, found=found)


class AsyncShiftBenchmark(AsyncExportedRun[PictureItem, ShiftBenchmarkSummary]):
    """A shift benchmark, followed by awaitable calls."""

    _calls = SHIFT_BENCHMARKS

    async def summary(self, *, object_percentile: float | None = None) -> ShiftBenchmarkSummary:
        """The figures, each with its interval and n; as `ShiftBenchmark.summary`."""
        return await self._sender.send(self._calls.summary(self.id, _percentile(object_percentile)))

    async def inspections(self, shift: str, *, source: BenchmarkSource | None = None) -> Inspections:
        """What to look at before a threshold is set; as `ShiftBenchmark.inspections`."""
        return await self._sender.send(inspections_call(self.id, shift, source))

    async def shift_thresholds(self) -> ShiftThresholds:
        """The thresholds in force, and every decision that was made."""
        return await self._sender.send(thresholds_call(self.id))

    async def set_shift_threshold(
        self, shift: str, threshold: float | None, author: str, *, source: BenchmarkSource | None = None
    ) -> ShiftThresholdDecision:
        """Decide from which similarity on pictures show ``shift``; as the blocking method."""
        body = _decision({"threshold": threshold, "author": author}, source)
        return await self._sender.send(decide_call(self.id, shift, body))

    async def judge_shift(
        self, shift: str, shows: dict[str, bool], author: str, *, source: BenchmarkSource | None = None
    ) -> ShiftThresholdDecision:
        """Say of every inspected picture whether it shows ``shift``; as `ShiftBenchmark.judge_shift`."""
        body = _decision({"shows": shows, "author": author}, source)
        return await self._sender.send(decide_call(self.id, shift, body))

    async def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        found: bool = False,
    ) -> Path:
        """Write the pictures that were kept into the new ``folder``; as `ShiftBenchmark.export`."""
        return await self._exported(folder, layout, dropped=dropped, found=found)


def inspections_call(run_id: str, shift: str, source: BenchmarkSource | None) -> Call[Inspections]:
    """``GET /v1/shift-benchmarks/{id}/inspections``."""
    params = {"shift": shift} | ({} if source is None else {"source": source})
    return SHIFT_BENCHMARKS.read(run_id, "/inspections", Inspections, params)


def thresholds_call(run_id: str) -> Call[ShiftThresholds]:
    """``GET /v1/shift-benchmarks/{id}/shift-thresholds``."""
    return SHIFT_BENCHMARKS.read(run_id, "/shift-thresholds", ShiftThresholds)


def decide_call(run_id: str, shift: str, body: ShiftThresholdSet) -> Call[ShiftThresholdDecision]:
    """``PUT /v1/shift-benchmarks/{id}/shift-thresholds/{shift}``; twice is a decision confirmed."""
    return Call(
        method="PUT",
        path=SHIFT_BENCHMARKS.path(run_id, f"/shift-thresholds/{segment(shift)}"),
        body=body,
        parse=reading(ShiftThresholdDecision),
    )


def _percentile(given: float | None) -> Params:
    return {} if given is None else {"object_percentile": given}


def _decision(told: dict[str, object], source: BenchmarkSource | None) -> ShiftThresholdSet:
    # Through validation, and only what was told: a threshold of None is a decision, and no threshold is none.
    return ShiftThresholdSet.model_validate(told | ({} if source is None else {"source": source}))
