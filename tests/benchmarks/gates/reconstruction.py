"""E3: the fast path beside null-text: evaluations an edited caption, and how well pictures come back."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.gates.evaluations import LONG_INNER
from benchmarks.report import Row, at_least, row
from faultline_core.contract.editor import EditorPreset
from oracles.reference_run import reference_evaluations


def rows(bench: Bench) -> list[Row]:
    """Hold direct inversion with a lazy sweep against null-text with a full one."""
    sizes, exact = bench.sizes, bench.exact(bench.sizes.steps)
    inner, baseline = _reconstructed(bench, exact)
    found = []
    for steps, least in ((sizes.steps, 7.0), (sizes.few_steps, 15.0)):
        fast = bench.direct(steps)
        _, reached = _reconstructed(bench, fast)
        gains = [one - other for one, other in zip(reached, baseline, strict=True)]
        told = f"direct inversion at {steps} steps, null-text at {sizes.steps}"
        found.append(
            row("E3", f"dB PSNR of the reconstruction beyond null-text's ({told})", gains, at_least(0))
        )
        found += _fewer(bench, fast, inner, least)
    return found


def _reconstructed(bench: Bench, preset: EditorPreset) -> tuple[float, list[float]]:
    work = bench.work.first(bench.sizes.judged, 0)
    response = bench.product.reconstruct(work, preset)
    errors = [outcome.unwrap().psnr_db for outcome in response.outcomes]
    return response.cost.unet_backward_evaluations / len(errors), errors


def _fewer(bench: Bench, fast: EditorPreset, inner: float, least: float) -> list[Row]:
    sizes, edits = bench.sizes, bench.sizes.fast_edits
    work = bench.work.first(sizes.fast_pictures, edits)
    lazy = bench.product.edit_lazily(work, fast, bench.judge).unet_evaluations
    full = bench.product.edit(work, fast).cost.unet_evaluations
    found = []
    long = LONG_INNER * sizes.steps / 50
    for iterations, told in ((inner, f"measured J = {inner:g}"), (long, f"J = {long:g}")):
        reference = sizes.fast_pictures * reference_evaluations(
            steps=sizes.steps, inner=iterations, sweep=len(fast.self_replace), edits=edits
        )
        shape = f"{fast.steps} steps, E={edits}, S={len(fast.self_replace)}, {told}"
        found.append(
            row("E3", f"times fewer F, direct, lazy sweep, released rule ({shape})", [reference / lazy],
                at_least(least))
        )  # fmt: skip
        found.append(row("E3", f"times fewer F, direct, full sweep ({shape})", [reference / full]))
    return [one.model_copy(update={"n": sizes.fast_pictures}) for one in found]
