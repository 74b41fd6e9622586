"""E6: null-text across images: how often an outer step waits for the device, and calls saved by batching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.inversion.null_text import NullTextSettings
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.report import Row, at_most, row
from evaluation.reference.plain_driver import null_text_inversion
from evaluation.reference.watched_operators import WatchedOperators

WAITING = frozenset({"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select"})
"""Operators whose result decides shapes or values on the host, so that the host waits for the device."""


class WaitingOperators(WatchedOperators):
    """Counts them, and indexing by truth values, which calls `nonzero`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def look(self, operator: Any, args: Sequence[Any], results: Any) -> None:
        """Note the operator."""
        name = operator.overloadpacket.__name__
        by_truth = name in ("index", "index_put_") and any(
            one is not None and one.dtype == torch.bool for one in args[1]
        )
        if name in WAITING or by_truth:
            self.seen[name] += 1


def rows(bench: Bench) -> list[Row]:
    """Invert the images together and each alone."""
    counts = [_counted(bench, range(bench.sizes.images))]
    alone = [_counted(bench, [number]) for number in range(bench.sizes.images)]
    steps = bench.sizes.timed_steps
    waits, operators, calls = (list(each) for each in zip(*counts, strict=True))
    shape = f"N={bench.sizes.images}, {steps} steps"
    saved = sum(calls_ for _, _, calls_ in alone) / calls[0]
    found = [
        row("E6", f"waits for the device an outer step, as counted by the product ({shape})",
            [waits[0] / steps], at_most(1)),
        row("E6", f"operators that make the host wait, an outer step, as dispatched ({shape})",
            [operators[0] / steps], at_most(1)),
        row("E6", f"times fewer calls than one image after the other ({shape})", [saved]),
    ]  # fmt: skip
    return [one.model_copy(update={"n": bench.sizes.images}) for one in found]


def _counted(bench: Bench, images: Sequence[int]) -> tuple[int, int, int]:
    pipeline, preset = bench.pipeline, bench.exact(bench.sizes.timed_steps)
    denoiser = CountingDenoiser(pipeline.denoiser)
    settings = NullTextSettings(guidance=preset.guidance, inner_steps=preset.inner_steps)
    clean = pipeline.codec.encode([bench.work.images[number] for number in images])
    text = pipeline.prompts.encode([bench.work.captions[number] for number in images])
    table = pipeline.schedule.timetable(preset.steps)
    with WaitingOperators() as operators:
        null_text_inversion(denoiser, table, clean, text, pipeline.null, settings)
    return denoiser.cost.host_syncs, operators.seen.total(), denoiser.cost.unet_calls
