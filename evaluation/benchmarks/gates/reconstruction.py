"""E3: the fast path against null-text: evaluations an edited caption, and PSNR of reconstructions."""

from __future__ import annotations

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from evaluation.benchmarks.bench import Bench, FastMode
from evaluation.benchmarks.gates.evaluations import LONG_INNER
from evaluation.benchmarks.report import Row, at_least, row
from evaluation.reference.reference_run import reference_evaluations


def rows(bench: Bench) -> list[Row]:
    """Compare the fast modes under a lazy sweep with null-text under a full one."""
    sizes = bench.sizes
    inner, baseline = _reconstructed(bench, bench.exact(sizes.steps))
    found = []
    for mode in bench.fast_modes():
        _, reached = _reconstructed(bench, mode.preset)
        gains = [one - other for one, other in zip(reached, baseline, strict=True)]
        measure = f"dB PSNR of the reconstruction beyond null-text's at {sizes.steps} steps ({mode.name})"
        found.append(row("E3", measure, gains, at_least(0)))
        found += _fewer(bench, mode, inner)
    return found


def _reconstructed(bench: Bench, preset: PromptToPromptPreset) -> tuple[float, list[float]]:
    work = bench.work.first(bench.sizes.judged, 0)
    response = bench.product.reconstruct(work, preset)
    errors = [outcome.unwrap().psnr_db for outcome in response.outcomes]
    return response.cost.unet_backward_evaluations / len(errors), errors


def _fewer(bench: Bench, mode: FastMode, inner: float) -> list[Row]:
    sizes, preset, sweep = bench.sizes, mode.preset, len(mode.preset.self_replace)
    work = bench.work.first(sizes.fast_images, sizes.fast_edits)
    lazy = bench.product.edit_lazily(work, preset, bench.judge).unet_evaluations
    target = None if mode.fewer is None else at_least(mode.fewer)
    long = LONG_INNER * sizes.steps / 50
    found = []
    for iterations, wording in ((inner, f"measured J = {inner:g}"), (long, f"J = {long:g}")):
        reference = sizes.fast_images * reference_evaluations(
            steps=sizes.steps, inner=iterations, sweep=sweep, edits=sizes.fast_edits
        )
        shape = f"{mode.name}, E={sizes.fast_edits}, S={sweep}, {wording}"
        measure = f"times fewer F, lazy sweep, released rule ({shape})"
        found.append(row("E3", measure, [reference / lazy], target))
    return [one.model_copy(update={"n": sizes.fast_images}) for one in found]
