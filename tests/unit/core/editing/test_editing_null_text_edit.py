"""Inversion and edits in one walk: the reference's results for half its evaluations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, cross_edit, refine
from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.edit import EditSettings, EditTask, InvertedAndEdited
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from evaluation.reference.plain_driver import edit, null_text_edit, null_text_inversion
from evaluation.reference.plain_editing import Carried, Target
from evaluation.reference.reference_run import Parity, reference_calls, reference_evaluations, reference_run
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS, SWEEP, CROSS = 5, (0.2, 0.4, 0.8), 0.6
TABLE, MODEL = NoiseSchedule().timetable(STEPS), TinyAttention()
CLEAN, TEXT = draw(3, 2, 4, 4, seed=5), draw(3, LENGTH, WIDTH, seed=6)
NULL, EDITED_TEXT = draw(LENGTH, WIDTH, seed=9), draw(4, LENGTH, WIDTH, seed=7)
INNER = NullTextSettings(guidance=2.0, tolerance=0.05)


def words(*ids: int) -> TokenizedPrompt:
    return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))


SWAP, INSERTION = align(words(5, 6, 7), words(5, 9, 7)), align(words(5, 6), words(5, 9, 6))
# By hand, from the papers' description: bos, words, then end mark and padding in order.
SAME_PLACES: Carried = {j: [(j, 1.0)] for j in range(LENGTH)}
ONE_LATER: Carried = {0: [(0, 1.0)], 1: [(1, 1.0)], **{j: [(j - 1, 1.0)] for j in range(3, LENGTH)}}
ALL_BUT_NEW = {j: source for j, source in SAME_PLACES.items() if j != 2}
CARRIED: dict[Parity, tuple[Carried, Carried]] = {
    "paper": (SAME_PLACES, ONE_LATER),
    "released": (ALL_BUT_NEW, ONE_LATER),
}
# The middle image has no edit; of the rest one is edited thrice.
SOURCES = (2, 0, 2, 2)


def tasks(parity: Parity = "paper", *, weight: float = 2.0) -> list[EditTask]:
    def controls(alignment: Alignment) -> CrossEdit:
        if parity == "paper":
            return cross_edit(alignment, LENGTH, word_weight=weight)
        return replace(refine(alignment, LENGTH), gain=cross_edit(alignment, LENGTH, word_weight=weight).gain)

    chosen = zip(SOURCES, EDITED_TEXT, (SWAP, INSERTION, INSERTION, SWAP), strict=True)
    return [EditTask(source, text, controls(alignment)) for source, text, alignment in chosen]


def settings(*, batch: int = 16, sweep: tuple[float, ...] = SWEEP) -> EditSettings:
    return EditSettings(guidance=2.0, cross_replace=CROSS, self_replace=sweep, batch=batch)


def run(chosen: list[EditTask], *, batch: int = 16, sweep: tuple[float, ...] = SWEEP) -> InvertedAndEdited:
    return null_text_edit(MODEL, TABLE, CLEAN, TEXT, NULL, INNER, chosen, settings(batch=batch, sweep=sweep))


@cache
def fused() -> InvertedAndEdited:
    return run(tasks())


def targets(parity: Parity, image: int) -> list[Target]:
    carried = [CARRIED[parity][kind] for kind in (0, 1, 1, 0)]
    return [
        Target(EDITED_TEXT[i : i + 1], carried[i], {2: 2.0})
        for i, source in enumerate(SOURCES)
        if source == image
    ]


def edited(parity: Parity) -> tuple[InvertedAndEdited, Tensor]:
    if parity == "paper":
        return fused(), fused().edited.latents
    # The released code weighs words at its first sweep value alone.
    weighted = run(tasks(parity), sweep=SWEEP[:1])
    rest = edit(MODEL, TABLE, weighted.inverted, TEXT, tasks(parity, weight=1.0), settings(sweep=SWEEP[1:]))
    return weighted, torch.cat([weighted.edited.latents, rest.latents], dim=1)


@pytest.mark.parametrize("parity", ["paper", "released"])
def test_inversions_and_edits_match_the_reference(parity: Parity) -> None:
    made, latents = edited(parity)
    for row in range(3):
        one = slice(row, row + 1)
        plain = reference_run(
            MODEL, CLEAN[one], TEXT[one], NULL[None], targets(parity, row), parity=parity, steps=STEPS,
            guidance=2.0, cross_replace=CROSS, tolerance=INNER.tolerance, sweep=SWEEP,
        )  # fmt: skip
        assert made.inverted.inner_iterations[row].tolist() == plain.inversion.iterations
        for ours, theirs in (
            (made.inverted.uncond[row], torch.cat(plain.inversion.embeddings)),
            (made.inverted.trajectory[row], torch.cat(plain.inversion.visited)),
            (made.inverted.reconstruction[one], plain.reconstruction),
            (latents[[i for i, source in enumerate(SOURCES) if source == row]],
             torch.stack(plain.images, dim=1)),
        ):  # fmt: skip
            assert torch.allclose(ours, theirs, atol=1e-10, rtol=0)


def test_each_image_stops_at_its_own_iteration() -> None:
    counts = fused().inverted.inner_iterations
    assert len({tuple(row) for row in counts.tolist()}) == 3
    assert 1 <= int(counts.min()) < int(counts.max()) <= 10


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_results_do_not_depend_on_the_call_size(batch: int) -> None:
    counting = CountingDenoiser(MODEL)
    small = null_text_edit(counting, TABLE, CLEAN, TEXT, NULL, INNER, tasks(), settings(batch=batch))
    assert torch.allclose(small.edited.latents, fused().edited.latents, atol=1e-10, rtol=0)
    assert small.inverted.inner_iterations.equal(fused().inverted.inner_iterations)
    costs = [*small.costs, *small.edited.costs]
    assert sum(cost.unet_evaluations for cost in costs) == counting.cost.unet_evaluations
    assert sum(cost.unet_backward_evaluations for cost in costs) == counting.cost.unet_backward_evaluations


def test_the_joint_edit_equals_inversion_followed_by_edits() -> None:
    inverted = null_text_inversion(MODEL, TABLE, CLEAN, TEXT, NULL, INNER)
    after = edit(MODEL, TABLE, inverted, TEXT, tasks(), settings()).latents
    assert torch.allclose(fused().edited.latents, after, atol=1e-10, rtol=0)
    assert torch.allclose(fused().inverted.uncond, inverted.uncond, atol=1e-10, rtol=0)


def test_no_source_is_evaluated_twice() -> None:
    inner = fused().inverted.inner_iterations.sum(dim=1).tolist()
    assert [cost.unet_evaluations for cost in fused().costs] == [3 * STEPS + count for count in inner]
    assert [cost.unet_backward_evaluations for cost in fused().costs] == inner
    # One path, two after the first fifth, three after the second: both halves, and no source.
    assert {cost.unet_evaluations for cost in fused().edited.costs} == {2 * (1 + 2 + 3 * 3)}


def test_a_nan_image_does_not_affect_its_batch() -> None:
    spoilt = CLEAN.clone()
    spoilt[2, 0, 0, 0] = torch.nan
    made = null_text_edit(MODEL, TABLE, spoilt, TEXT, NULL, INNER, tasks(), settings())
    assert made.inverted.finite.tolist() == [True, True, False]
    assert made.edited.finite.tolist() == [False, True, False, False]
    assert torch.allclose(made.edited.latents[1], fused().edited.latents[1], atol=1e-10, rtol=0)


def test_the_joint_edit_takes_half_the_evaluations_and_a_fifth_of_the_calls() -> None:
    """Four images, three edits each, six sweep values, fifty steps; one inner iteration stands for all."""
    images, edits, sweep, steps = 4, 3, (0.4, 0.5, 0.6, 0.7, 0.8, 0.9), 50
    model = CountingDenoiser(TinyAttention(dtype=torch.float32))
    clean, text = draw(images, 2, 2, 2, seed=5).float(), draw(images, LENGTH, WIDTH, seed=6).float()
    controls = cross_edit(SWAP, LENGTH, word_weight=2.0)
    null_text_edit(
        model, NoiseSchedule().timetable(steps), clean, text, NULL.float(),
        NullTextSettings(inner_steps=1, tolerance=0.0),
        [EditTask(i // edits, text[i % edits], controls) for i in range(images * edits)],
        EditSettings(guidance=7.5, cross_replace=0.8, self_replace=sweep, batch=18),
    )  # fmt: skip
    # From the fewest inner iterations seen on photographs to the most there can be.
    for inner in (445, 470, 500):
        # Weights need no gradient: 2.08 evaluations an inner iteration, where the reference takes 3.
        taken = model.cost.unet_evaluations + (2.08 * inner - steps) * images
        reference = reference_evaluations(steps=steps, inner=inner, sweep=len(sweep), edits=edits)
        assert reference * images / taken >= 2.0
        calls = model.cost.unet_calls + inner - steps
        assert images * reference_calls(steps=steps, inner=inner, sweep=len(sweep)) / calls >= 4.5
