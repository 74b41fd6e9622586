"""Minimal configurations of benchmarks that retrieve images."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.shift_benchmarks import (
    BenchmarkShift,
    RetrievalManifest,
    ShiftBenchmarkConfig,
    ShiftBenchmarkCreate,
)


def retrieving_benchmark(
    prompts: Mapping[str, str], retrieval: RetrievalManifest | None
) -> ShiftBenchmarkConfig:
    """A benchmark of shifts by name and prompt on the dataset of ``retrieval``."""
    request = ShiftBenchmarkCreate(
        interface="i", classifiers=["steady"], seed=0, image_sources=["retrieval"], retrieval="folder"
    )
    shifts = [
        BenchmarkShift(name=name, prompt=prompt, caption=name, family="own")
        for name, prompt in prompts.items()
    ]
    return ShiftBenchmarkConfig(
        request=request, suite="s", dataset="d", dataset_digest="", generation=GenerationPreset(), models={},
        versions={}, classes=["apple"], labels=["apple"], shifts=shifts, tokens={}, retrieval=retrieval,
        clip="clip",
    )  # fmt: skip
