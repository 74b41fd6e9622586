"""A shift benchmark by its id: a run whose thresholds can be set without generating images again."""

from __future__ import annotations

from pathlib import Path

from counterpose._calls import Call, reading, segment
from counterpose._exported_runs import AsyncExportedRun, ExportedRun
from counterpose._exports import ExportLayout
from counterpose._run_calls import Params, RunCalls
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageSource
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)

SHIFT_BENCHMARKS = RunCalls("shift-benchmark", ImageItem, ShiftBenchmarkSummary)


class ShiftBenchmark(ExportedRun[ImageItem, ShiftBenchmarkSummary]):
    """A shift benchmark, followed by blocking calls."""

    _calls = SHIFT_BENCHMARKS

    def summary(self, *, object_percentile: float | None = None) -> ShiftBenchmarkSummary:
        """Return the summary: each figure with its interval and n.

        Args:
            object_percentile: an image shows its class if its similarity reaches this percentile (0 to 100)
                of the class's real images. Another value re-scores the same images.
        """
        return self._sender.send(self._calls.summary(self.id, _percentile(object_percentile)))

    def inspections(self, shift: str, *, image_source: ImageSource | None = None) -> Inspections:
        """Return the images to inspect before setting a threshold: those around fixed percentiles.

        Raises:
            NotFound: the benchmark has no such shift.
            DatasetEmpty: the shift has no images yet.
        """
        return self._sender.send(inspections_call(self.id, shift, image_source))

    def shift_thresholds(self) -> ShiftThresholds:
        """Return the thresholds in force and every decision."""
        return self._sender.send(thresholds_call(self.id))

    def set_shift_threshold(
        self, shift: str, threshold: float | None, author: str, *, image_source: ImageSource | None = None
    ) -> ShiftThresholdDecision:
        """Set the similarity from which images count as showing ``shift``.

        Summary and report use the newest decision; all are kept with their authors.

        Args:
            shift: one of the benchmark's shifts.
            threshold: a similarity from -1 to 1; with None no image passes.
            author: who decides.
            image_source: the image source; default: the benchmark's first.
        """
        body = _decision({"threshold": threshold, "author": author}, image_source)
        return self._sender.send(decide_call(self.id, shift, body))

    def judge_shift(
        self, shift: str, shows: dict[str, bool], author: str, *, image_source: ImageSource | None = None
    ) -> ShiftThresholdDecision:
        """Set the threshold of ``shift`` by judging every inspected image.

        The lowest percentile whose images all show the shift becomes the threshold (Dataset Interfaces, A.3).

        Args:
            shift: one of the benchmark's shifts.
            shows: by item id, whether its image shows the shift.
            author: who judges.
            image_source: the image source; default: the benchmark's first.

        Raises:
            InvalidRequest: an inspected image is not judged, or images are still being generated.
        """
        body = _decision({"shows": shows, "author": author}, image_source)
        return self._sender.send(decide_call(self.id, shift, body))

    def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        found: bool = False,
    ) -> Path:
        """Write the kept images to a new ``folder``; as `StressTest.export`.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.
            found: also export photographs (real, retrieved, scraped and provided ones); they carry no mark
                of synthetic media.
        """
        return self._exported(folder, layout, dropped=dropped, found=found)


class AsyncShiftBenchmark(AsyncExportedRun[ImageItem, ShiftBenchmarkSummary]):
    """A shift benchmark, followed by awaitable calls."""

    _calls = SHIFT_BENCHMARKS

    async def summary(self, *, object_percentile: float | None = None) -> ShiftBenchmarkSummary:
        """Return the summary; as `ShiftBenchmark.summary`."""
        return await self._sender.send(self._calls.summary(self.id, _percentile(object_percentile)))

    async def inspections(self, shift: str, *, image_source: ImageSource | None = None) -> Inspections:
        """Return the images to inspect; as `ShiftBenchmark.inspections`."""
        return await self._sender.send(inspections_call(self.id, shift, image_source))

    async def shift_thresholds(self) -> ShiftThresholds:
        """Return the thresholds in force and every decision."""
        return await self._sender.send(thresholds_call(self.id))

    async def set_shift_threshold(
        self, shift: str, threshold: float | None, author: str, *, image_source: ImageSource | None = None
    ) -> ShiftThresholdDecision:
        """Set the threshold of ``shift``; as `ShiftBenchmark.set_shift_threshold`."""
        body = _decision({"threshold": threshold, "author": author}, image_source)
        return await self._sender.send(decide_call(self.id, shift, body))

    async def judge_shift(
        self, shift: str, shows: dict[str, bool], author: str, *, image_source: ImageSource | None = None
    ) -> ShiftThresholdDecision:
        """Set the threshold by judging images; as `ShiftBenchmark.judge_shift`."""
        body = _decision({"shows": shows, "author": author}, image_source)
        return await self._sender.send(decide_call(self.id, shift, body))

    async def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        found: bool = False,
    ) -> Path:
        """Write the kept images to a new ``folder``; as `ShiftBenchmark.export`."""
        return await self._exported(folder, layout, dropped=dropped, found=found)


def inspections_call(run_id: str, shift: str, image_source: ImageSource | None) -> Call[Inspections]:
    """``GET /v1/shift-benchmarks/{id}/inspections``."""
    params = {"shift": shift} | ({} if image_source is None else {"image_source": image_source})
    return SHIFT_BENCHMARKS.read(run_id, "/inspections", Inspections, params)


def thresholds_call(run_id: str) -> Call[ShiftThresholds]:
    """``GET /v1/shift-benchmarks/{id}/shift-thresholds``."""
    return SHIFT_BENCHMARKS.read(run_id, "/shift-thresholds", ShiftThresholds)


def decide_call(run_id: str, shift: str, body: ShiftThresholdSet) -> Call[ShiftThresholdDecision]:
    """``PUT /v1/shift-benchmarks/{id}/shift-thresholds/{shift}``; a second one confirms the first."""
    return Call(
        method="PUT",
        path=SHIFT_BENCHMARKS.path(run_id, f"/shift-thresholds/{segment(shift)}"),
        body=body,
        parse=reading(ShiftThresholdDecision),
    )


def _percentile(percentile: float | None) -> Params:
    return {} if percentile is None else {"object_percentile": percentile}


def _decision(fields: dict[str, object], image_source: ImageSource | None) -> ShiftThresholdSet:
    # Only the fields that were set: a threshold of None is a decision, a missing threshold is not.
    return ShiftThresholdSet.model_validate(
        fields | ({} if image_source is None else {"image_source": image_source})
    )
