"""E2: evaluations and calls of a batch of images, full sweep and lazy, against the reference's."""

from __future__ import annotations

from counterpose_core.types import Cost
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.prices import SD_INNER_ITERATION, prices
from evaluation.benchmarks.report import Row, at_least, row
from evaluation.benchmarks.workload import WEIGHTS
from evaluation.reference.reference_run import reference_calls, reference_evaluations

LONG_INNER = 470
"""Inner iterations of null-text at fifty steps on real photographs."""


def rows(bench: Bench) -> list[Row]:
    """Count evaluations; the reference costs what the cost model says, within 1 % (a test)."""
    sizes, preset = bench.sizes, bench.exact(bench.sizes.steps)
    work = bench.work.first(sizes.images, sizes.edits)
    frozen = prices(WEIGHTS / bench.suite.model / "unet", bench.pipeline.prompts.length).frozen_inner
    full = bench.product.edit(work, preset).cost
    lazy = bench.product.edit_lazily(work, preset, bench.judge)
    strict = bench.product.edit_lazily(work, bench.paper(sizes.steps), bench.judge)
    shape = f"N={sizes.images}, E={sizes.edits}, S={len(preset.self_replace)}, {sizes.steps} steps"
    inner = full.unet_backward_evaluations / sizes.images
    long = LONG_INNER * sizes.steps / 50

    def reference(iterations: float) -> float:
        return sizes.images * reference_evaluations(
            steps=sizes.steps, inner=iterations, sweep=len(preset.self_replace), edits=sizes.edits
        )

    def taken(cost: Cost, iterations: float, price: float) -> float:
        """F at the given number of inner iterations an image; everything else as counted."""
        outside = cost.unet_evaluations - cost.unet_backward_evaluations
        return outside + price * iterations * sizes.images

    calls = sizes.images * reference_calls(steps=sizes.steps, inner=inner, sweep=len(preset.self_replace))
    found = []
    sweeps = (
        ("full sweep", full, 2.0),
        ("lazy sweep, released rule", lazy, 3.0),
        ("the same at guidance 7.5, where nearly nothing passes", strict, 3.0),
    )
    for name, cost, least in sweeps:
        for iterations, wording in ((inner, "measured J"), (long, f"J = {long:g}")):
            ratio = reference(iterations) / taken(cost, iterations, frozen)
            found.append(
                row("E2", f"times fewer F, exact, {name}, {wording} ({shape})", [ratio], at_least(least))
            )
        ratio = reference(long) / taken(cost, long, SD_INNER_ITERATION)
        wording = f"J = {long:g}, {SD_INNER_ITERATION} F an inner iteration as in SD 1.4"
        found.append(
            row("E2", f"times fewer F, exact, {name}, {wording} ({shape})", [ratio], at_least(least))
        )
    found.append(
        row("E2", f"times fewer network calls, exact, full sweep ({shape})", [calls / full.unet_calls],
            at_least(4.5))
    )  # fmt: skip
    found.append(row("E2", f"inner iterations an image, of {10 * sizes.steps}", [inner]))
    found.append(row("E2", "F of an inner iteration, weights frozen, this network", [frozen]))
    return [one.model_copy(update={"n": sizes.images}) for one in found]
