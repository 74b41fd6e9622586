"""What the counting denoiser counts during an edit: evaluations, operations, map bytes, host syncs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, PromptToPrompt, cross_edit
from counterpose_core.editing.denoiser import (
    AttentionControl,
    AttentionSite,
    CountingDenoiser,
    EvaluationFlops,
    read_on_host,
)
from counterpose_core.editing.driver.evaluation import Evaluation, Objective, Walk
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_core.types import Cost
from evaluation.reference.plain_driver import Driver, direct_inversion, edit, null_text_inversion
from evaluation.reference.toy_denoisers import HEADS, LENGTH, WIDTH, TinyAttention, draw, linear

SWAP = align(*(TokenizedPrompt((0, 5, word, 7, 1), (None, 0, 1, 2, None)) for word in (6, 9)))
SWAPPED = cross_edit(SWAP, LENGTH, word_weight=1.0)
CLEAN, TEXT, TIME = draw(5, 2, 4, 4, seed=1), draw(5, LENGTH, WIDTH, seed=2), torch.full((5,), 500)
POSITIONS, FLOAT64 = 16, 8
ROW_BYTES = HEADS * POSITIONS * LENGTH * FLOAT64


def control(*, controlled: bool, collect: bool = False) -> PromptToPrompt:
    """One source and two targets, whose two halves make rows 1 to 4 of the call."""
    return PromptToPrompt(
        source_of=torch.tensor([0, 0]),
        sources=1,
        cross=CrossEdit.stack([SWAPPED, SWAPPED]) if controlled else None,
        injected=torch.tensor([True, False]),
        collect=collect,
    )


@pytest.mark.parametrize(
    ("controlled", "collect", "rows"),
    [(False, False, 0), (True, False, 3), (False, True, 3), (True, True, 3)],
)
def test_attention_maps_are_counted_when_formed(controlled: bool, collect: bool, rows: int) -> None:
    counting = CountingDenoiser(TinyAttention())
    for call in (1, 2):
        seated = control(controlled=controlled, collect=collect)
        counting(CLEAN, TIME, TEXT, seated)
        # One cross-attention layer, source and conditional targets; self-attention never forms a map.
        assert counting.cost.attention_map_bytes == call * rows * ROW_BYTES
        assert seated.row_map_bytes == ROW_BYTES * bool(rows)


def test_an_uncontrolled_call_forms_no_maps() -> None:
    counting = CountingDenoiser(TinyAttention())
    counting(CLEAN, TIME, TEXT)
    assert counting.cost == Cost(unet_calls=1, unet_evaluations=5)


def test_half_precision_maps_take_half_the_bytes() -> None:
    seated = control(controlled=True)
    counting = CountingDenoiser(TinyAttention(dtype=torch.float32))
    counting(CLEAN.float(), TIME, TEXT.float(), seated)
    assert counting.cost.attention_map_bytes == 3 * ROW_BYTES // 2


def test_a_failed_call_is_charged_for_the_maps_it_formed() -> None:
    def failing(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        assert control is not None
        heads = draw(5, HEADS, POSITIONS, 4, seed=3)
        control.attend(
            AttentionSite("attn2", is_cross=True), heads, heads[:, :, :LENGTH], heads[:, :, :LENGTH]
        )
        raise ArithmeticError

    counting = CountingDenoiser(failing)
    with pytest.raises(ArithmeticError):
        counting(CLEAN, TIME, TEXT, control(controlled=True))
    assert counting.cost == Cost(unet_calls=1, unet_evaluations=5, attention_map_bytes=3 * ROW_BYTES)


def test_operations_count_forward_and_backward_evaluations() -> None:
    counting = CountingDenoiser(TinyAttention(), EvaluationFlops(forward=100, backward=7))
    counting(CLEAN, TIME, TEXT)
    assert counting.cost.flops == 5 * 100
    counting(CLEAN, TIME, TEXT.clone().requires_grad_())
    assert counting.cost.flops == 10 * 100 + 5 * 7
    with torch.no_grad():
        counting(CLEAN, TIME, TEXT.clone().requires_grad_())
    assert counting.cost.flops == 15 * 100 + 5 * 7


def test_operations_are_added_to_an_existing_cost() -> None:
    priced = EvaluationFlops(forward=3, backward=2).priced(
        Cost(unet_evaluations=4, unet_backward_evaluations=1, flops=1000)
    )
    assert priced == Cost(unet_evaluations=4, unet_backward_evaluations=1, flops=1000 + 14)


def test_a_host_read_is_counted_and_leaves_the_value_unchanged() -> None:
    counting, losses = CountingDenoiser(linear), draw(3, seed=4)
    assert torch.equal(read_on_host(counting, losses), losses)
    assert counting.cost.host_syncs == 1
    assert torch.equal(read_on_host(linear, losses), losses)
    assert counting.cost.host_syncs == 1


STEPS, IMAGES = 5, 2
TABLE = NoiseSchedule().timetable(STEPS)
PHOTOGRAPHS, CAPTIONS = draw(IMAGES, 2, 4, 4, seed=5), draw(IMAGES, LENGTH, WIDTH, seed=6)
NULL = draw(LENGTH, WIDTH, seed=9)


@pytest.mark.parametrize("batch", [2, 3, 16])
def test_edit_costs_add_up_to_the_maps_formed(batch: int) -> None:
    counting = CountingDenoiser(TinyAttention(), EvaluationFlops(forward=1000))
    inverted = direct_inversion(TinyAttention(), TABLE, PHOTOGRAPHS, CAPTIONS, NULL)
    texts = draw(3, LENGTH, WIDTH, seed=7)
    edits = [EditTask(source, text, SWAPPED) for source, text in zip((0, 1, 0), texts, strict=True)]
    settings = EditSettings(guidance=3.0, cross_replace=0.6, self_replace=(0.2, 0.8), batch=batch)
    costs = edit(counting, TABLE, inverted, CAPTIONS, edits, settings).costs
    total = sum(costs, Cost())
    assert total.attention_map_bytes == counting.cost.attention_map_bytes
    assert total.unet_evaluations * 1000 == counting.cost.flops
    # Three controlled steps of three targets, which the second step parts in two, and at least two sources.
    assert counting.cost.attention_map_bytes >= (3 + 6 + 6 + 3 * IMAGES) * ROW_BYTES
    assert all(cost.attention_map_bytes % ROW_BYTES == 0 for cost in costs)
    assert costs[1].attention_map_bytes == (1 + 2 + 2 + 3) * ROW_BYTES or batch < 16
    assert counting.cost.host_syncs == total.host_syncs == 0


@pytest.mark.parametrize("images", [1, IMAGES])
def test_null_text_syncs_once_per_inner_iteration_of_a_batch(images: int) -> None:
    counting = CountingDenoiser(TinyAttention())
    settings = NullTextSettings(guidance=2.0, inner_steps=4, tolerance=2e-3)
    inverted = null_text_inversion(counting, TABLE, PHOTOGRAPHS[:images], CAPTIONS[:images], NULL, settings)
    longest = inverted.inner_iterations.max(dim=0).values
    # Nothing hangs on the loss of a step's last iteration: it is not read.
    assert counting.cost.host_syncs == int(longest.clamp(max=settings.inner_steps - 1).sum())
    assert 0 < counting.cost.host_syncs < STEPS * settings.inner_steps


def test_a_host_sync_is_charged_to_every_image_of_the_batch() -> None:
    driver, names = Driver(TinyAttention()), ("one", "other")
    evaluation = Evaluation(
        timestep=500, latents=CLEAN[:2], text=TEXT[:2], owners=names,
        objective=Objective(1.0, torch.zeros_like(CLEAN[:2]), read=True),
    )  # fmt: skip

    def walk() -> Walk[None]:
        yield [evaluation]
        yield [replace(evaluation, objective=Objective(1.0, torch.zeros_like(CLEAN[:2]), read=False))]

    driver.run(walk())
    assert [driver.cost(name).host_syncs for name in names] == [1, 1]
    assert [driver.cost(name).unet_backward_evaluations for name in names] == [2, 2]
