"""``client.shift_benchmarks``: measure which shifts of an interface's classes break which classifiers."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal

from counterpose._python_function.model import AnyClassifier
from counterpose._shift_benchmark_run import SHIFT_BENCHMARKS, AsyncShiftBenchmark, ShiftBenchmark
from counterpose.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from counterpose_core.contract.shift_benchmarks import CATALOGUE, ImageSource, ShiftBenchmarkCreate


class _Creating(RunVerbs[H]):
    """How a shift benchmark is requested."""

    _calls = SHIFT_BENCHMARKS

    def create(
        self,
        *,
        interface: str,
        classifiers: Sequence[AnyClassifier],
        shifts: Sequence[str] | Literal["catalogue"] = "catalogue",
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
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> H:
        """Start a benchmark of an interface; it continues whether or not you wait for it.

        Args:
            interface: the dataset interface's run id.
            classifiers: what to test; callables are served while this client is open.
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
            seed, idempotency_key: equal seeds give equal results; an equal key returns the first run.
        """
        body = ShiftBenchmarkCreate(
            interface=interface,
            shifts=CATALOGUE if shifts == "catalogue" else list(shifts),
            classes=None if classes is None else list(classes),
            **self._named(classifiers),
            base=base,
            class_shifts={name: list(words) for name, words in (class_shifts or {}).items()},
            image_sources=list(image_sources),
            retrieval=retrieval,
            scraped=dict(scraped or {}),
            photographs=dict(photographs or {}),
            n=n,
            real=real,
            validation=validation,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
            seed=seed,
        )
        return self._take(SHIFT_BENCHMARKS.create(body, idempotency_key))


class ShiftBenchmarks(_Creating[ShiftBenchmark], RunResource[ShiftBenchmark]):
    """``/v1/shift-benchmarks``."""

    _handle = ShiftBenchmark


class AsyncShiftBenchmarks(
    _Creating[Coroutine[Any, Any, AsyncShiftBenchmark]], AsyncRunResource[AsyncShiftBenchmark]
):
    """``/v1/shift-benchmarks``."""

    _handle = AsyncShiftBenchmark
