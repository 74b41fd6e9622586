"""``client.shift_benchmarks``: measure which shifts of an interface's classes break which classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from counterpose._async.run_handle import AsyncExportedRun
from counterpose._async.run_resource import AsyncRunResource
from counterpose._calls import Call, reading, segment
from counterpose._exports import ExportLayout
from counterpose._options import AnyTask, LabelMap, label_map_of
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import CATALOGUE, ImageItem, ImageSource, ShiftBenchmarkCreate
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_core.contract.spending import SpendingLimits


class AsyncShiftBenchmark(AsyncExportedRun[ImageItem, ShiftBenchmarkSummary]):
    """A shift benchmark, followed by awaitable calls; its thresholds can be set without making an image."""

    _calls = RunCalls("shift-benchmark", ImageItem, ShiftBenchmarkSummary)

    async def summary(self, *, object_percentile: float | None = None) -> ShiftBenchmarkSummary:
        """Return the summary: each figure with its interval and n.

        Args:
            object_percentile: an image shows its class if its similarity reaches this percentile (0 to 100)
                of the class's real images. Another value re-scores the same images.
        """
        params = {} if object_percentile is None else {"object_percentile": object_percentile}
        return await self._sender.send(self._calls.summary(self.id, params))

    async def inspections(self, shift: str, *, image_source: ImageSource | None = None) -> Inspections:
        """Return the images to inspect before setting a threshold: those around fixed percentiles.

        Raises:
            NotFound: the benchmark has no such shift.
            DatasetEmpty: the shift has no images yet.
        """
        params = {"shift": shift} | ({} if image_source is None else {"image_source": image_source})
        return await self._sender.send(self._calls.read(self.id, "/inspections", Inspections, params))

    async def shift_thresholds(self) -> ShiftThresholds:
        """Return the thresholds in force and every decision."""
        return await self._sender.send(self._calls.read(self.id, "/shift-thresholds", ShiftThresholds))

    async def set_shift_threshold(
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
        return await self._decide(shift, {"threshold": threshold, "author": author}, image_source)

    async def judge_shift(
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
        return await self._decide(shift, {"shows": shows, "author": author}, image_source)

    async def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        found: bool = False,
    ) -> Path:
        """Write the kept images to a new ``folder``; as `AsyncStressTest.export`.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.
            found: also export photographs (real, retrieved, scraped and provided ones); they carry no mark
                of synthetic media.
        """
        return await self._exported(folder, layout, dropped=dropped, found=found)

    async def _decide(
        self, shift: str, fields: dict[str, object], image_source: ImageSource | None
    ) -> ShiftThresholdDecision:
        """``PUT /v1/runs/{id}/shift-thresholds/{shift}``; a second one confirms the first."""
        # Only the fields that were set: a threshold of None is a decision, a missing threshold is not.
        given = fields | ({} if image_source is None else {"image_source": image_source})
        call = Call(
            "PUT",
            self._calls.path(self.id, f"/shift-thresholds/{segment(shift)}"),
            reading(ShiftThresholdDecision),
            body=checked(ShiftThresholdSet, given),
        )
        return await self._sender.send(call)


class AsyncShiftBenchmarks(AsyncRunResource[AsyncShiftBenchmark]):
    """``/v1/shift-benchmarks``."""

    _handle = AsyncShiftBenchmark

    async def create(
        self,
        *,
        interface: str,
        classifiers: Sequence[AnyClassifier],
        shifts: Sequence[str] | Literal["catalogue"] = "catalogue",
        label_map: LabelMap | None = None,
        task: AnyTask | None = None,
        classes: Sequence[str] | None = None,
        class_shifts: Mapping[str, Sequence[str]] | None = None,
        base: str | None = None,
        image_sources: Sequence[ImageSource] = ("token",),
        retrieval: str | None = None,
        scraped: Mapping[str, str] | None = None,
        photographs: Mapping[str, str] | None = None,
        n: int = 8,
        real: int = 50,
        validation: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        scheduler: str | None = None,
        spending: SpendingLimits | Mapping[str, Any] | None = None,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> AsyncShiftBenchmark:
        """Start a benchmark of an interface; it continues whether or not you wait for it.

        Args:
            interface: the dataset interface's run id.
            classifiers: what to test; callables are served while this client is open.
            label_map: for a class, those of a classifier's own classes that it sums.
            task: what counts as right, as of a stress test.
            shifts: the paper's catalogue, or words, names of the catalogue, prompts with ``<class>``.
            classes, class_shifts: the classes to test (default: all), and further shifts of single ones.
            base: the prompt without a shift; default: "a photo of a <class>".
            image_sources: the learned ``token``, the plain ``class-name``, ``retrieval`` from a dataset,
                ``scraped`` images, ``photographs``.
            retrieval: the dataset that the image source ``retrieval`` searches.
            scraped, photographs: a dataset per condition for the image sources of these names.
            n: images per class, condition and image source.
            real: real images per class, for thresholds and controls.
            validation: the dataset of the real images, if some were held out; default: the interface's.
            steps, guidance, scheduler: of the diffusion model; default: the suite's.
            spending: what servers of others may be asked for, as ``{"images": 200}``; then the run stops.
            seed, idempotency_key: equal seeds give equal results; an equal key returns the first run.
        """
        body = checked(
            ShiftBenchmarkCreate,
            {
                "interface": interface, "base": base, "retrieval": retrieval, "validation": validation,
                "n": n, "real": real, "steps": steps, "guidance": guidance, "scheduler": scheduler,
                "seed": seed, "spending": spending,
                "shifts": CATALOGUE if shifts == "catalogue" else list(shifts),
                "classes": None if classes is None else list(classes),
                **self._named(classifiers),
                "label_map": label_map_of(label_map),
                **({} if task is None else {"task": task}),
                "class_shifts": {name: list(words) for name, words in (class_shifts or {}).items()},
                "image_sources": list(image_sources),
                "scraped": dict(scraped or {}), "photographs": dict(photographs or {}),
            },
        )  # fmt: skip
        return await self._create(body, idempotency_key)
