"""What the counting denoiser knows after an edit: evaluations, operations, bytes of maps, waits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faultline_core.editing.attention_control import PromptToPrompt, cross_edit
from faultline_core.editing.denoiser import (
    AttentionControl,
    AttentionSite,
    CountingDenoiser,
    EvaluationFlops,
    read_on_host,
)
from faultline_core.editing.prompt_alignment import TokenizedPrompt, align
from faultline_core.types import Cost
from oracles.toy_denoisers import HEADS, LENGTH, WIDTH, TinyAttention, draw, linear

SWAP = align(
    *(TokenizedPrompt((0, 5, word, 7, 1), (None, 0, 1, 2, None)) for word in (6, 9)),
)
CLEAN, TEXT, TIME = draw(5, 2, 4, 4, seed=1), draw(5, LENGTH, WIDTH, seed=2), torch.full((5,), 500)
POSITIONS, FLOAT64 = 16, 8
ROW_BYTES = HEADS * POSITIONS * LENGTH * FLOAT64


def control(*, controlled: bool, collect: bool = False) -> PromptToPrompt:
    """One source and two targets, whose two halves make rows 1 to 4 of the call."""
    edit = cross_edit(SWAP, LENGTH, word_weight=1.0)
    return PromptToPrompt(
        source_of=torch.tensor([0, 0]),
        sources=1,
        cross=type(edit).stack([edit, edit]) if controlled else None,
        injected=torch.tensor([True, False]),
        collect=collect,
    )


@pytest.mark.parametrize(
    ("controlled", "collect", "rows"),
    [(False, False, 0), (True, False, 3), (False, True, 3), (True, True, 3)],
)
def test_maps_are_counted_where_they_are_formed(controlled: bool, collect: bool, rows: int) -> None:
    counting = CountingDenoiser(TinyAttention())
    for call in (1, 2):
        seated = control(controlled=controlled, collect=collect)
        counting(CLEAN, TIME, TEXT, seated)
        # One cross-attention layer, source and conditional targets; self-attention never forms a map.
        assert counting.cost.attention_map_bytes == call * rows * ROW_BYTES
        assert seated.row_map_bytes == ROW_BYTES * bool(rows)


def test_a_plain_call_forms_no_map() -> None:
    counting = CountingDenoiser(TinyAttention())
    counting(CLEAN, TIME, TEXT)
    assert counting.cost == Cost(unet_calls=1, unet_evaluations=5)


def test_maps_of_half_the_precision_take_half_the_bytes() -> None:
    seated = control(controlled=True)
    counting = CountingDenoiser(TinyAttention(dtype=torch.float32))
    counting(CLEAN.float(), TIME, TEXT.float(), seated)
    assert counting.cost.attention_map_bytes == 3 * ROW_BYTES // 2


def test_a_call_that_fails_is_paid_for_with_the_maps_it_formed() -> None:
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


def test_operations_are_those_of_the_evaluations_forward_and_backward() -> None:
    counting = CountingDenoiser(TinyAttention(), EvaluationFlops(forward=100, backward=7))
    counting(CLEAN, TIME, TEXT)
    assert counting.cost.flops == 5 * 100
    counting(CLEAN, TIME, TEXT.clone().requires_grad_())
    assert counting.cost.flops == 10 * 100 + 5 * 7
    with torch.no_grad():
        counting(CLEAN, TIME, TEXT.clone().requires_grad_())
    assert counting.cost.flops == 15 * 100 + 5 * 7


def test_operations_are_added_to_what_a_cost_has_already() -> None:
    priced = EvaluationFlops(forward=3, backward=2).priced(
        Cost(unet_evaluations=4, unet_backward_evaluations=1, flops=1000)
    )
    assert priced == Cost(unet_evaluations=4, unet_backward_evaluations=1, flops=1000 + 14)


def test_a_result_read_on_the_host_is_counted_and_stays_what_it_was() -> None:
    counting, losses = CountingDenoiser(linear), draw(3, seed=4)
    assert torch.equal(read_on_host(counting, losses), losses)
    assert counting.cost.host_syncs == 1
    assert torch.equal(read_on_host(linear, losses), losses)
    assert counting.cost.host_syncs == 1
