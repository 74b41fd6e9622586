"""``client.shift_benchmarks``: which shifts of an interface's classes break which classifiers."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal

from faultline._shift_benchmark_run import SHIFT_BENCHMARKS, AsyncShiftBenchmark, ShiftBenchmark
from faultline.resources._runs import AsyncRunResource, H, RunResource, Taking
from faultline_core.contract.shift_benchmarks import CATALOGUE, BenchmarkSource, ShiftBenchmarkCreate


class _Creating(Taking[H]):
    """How a shift benchmark is asked for."""

    _calls = SHIFT_BENCHMARKS

    def create(
        self,
        *,
        interface: str,
        classifiers: Sequence[str],
        shifts: Sequence[str] | Literal["catalogue"] = "catalogue",
        classes: Sequence[str] | None = None,
        class_shifts: Mapping[str, Sequence[str]] | None = None,
        base: str | None = None,
        sources: Sequence[BenchmarkSource] = ("token",),
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
        """Start a benchmark of an interface, by its id; it goes on whether or not anybody waits for it.

        ``shifts`` are the paper's catalogue, or your own: words, names of the catalogue, whole prompts with
        ``<class>``; ``class_shifts`` are further ones of single classes, ``base`` the prompt without any, by
        default "a photo of a <class>". ``n`` pictures of each class and shift, and as many without, are
        made or found by each of ``sources``: the learned ``token``, the plain ``class-name``, ``retrieval``
        from a dataset, ``scraped`` and ``photographs`` from a dataset for each condition. ``real`` pictures
        a class, of ``validation`` where some were kept back, are the controls. A classifier
        ``py:module:function`` is served by this client until the client is closed.
        """
        body = ShiftBenchmarkCreate(
            interface=interface,
            shifts=CATALOGUE if shifts == "catalogue" else list(shifts),
            classes=None if classes is None else list(classes),
            classifiers=self._served(classifiers),
            base=base,
            class_shifts={name: list(words) for name, words in (class_shifts or {}).items()},
            sources=list(sources),
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
