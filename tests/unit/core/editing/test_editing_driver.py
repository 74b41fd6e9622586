"""Walks that share calls: each gives the same result as alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, CountingDenoiser
from counterpose_core.errors import Cancelled
from evaluation.reference.plain_driver import Driver
from evaluation.reference.toy_denoisers import TinyAttention
from fakes.walks import DTYPES, KINDS, alone, walk


@settings(max_examples=3, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6, unique=True),
    batch=st.sampled_from((1, 2, 3, 16, None)),
    dtype=st.sampled_from(tuple(DTYPES)),
)
def test_results_do_not_depend_on_which_walks_share_a_call(
    kinds: list[str], batch: int | None, dtype: torch.dtype
) -> None:
    counting = CountingDenoiser(TinyAttention(dtype=dtype))
    driver = Driver(counting, batch=batch)
    together = driver.run_all([walk(kind, dtype) for kind in kinds])
    for kind, found in zip(kinds, together, strict=True):
        assert torch.allclose(found, alone(kind, dtype), atol=DTYPES[dtype], rtol=0), kind
    owners = [(kind, row) for kind in kinds for row in range(2)]
    edits = [(kind, "edit", row) for kind in kinds for row in range(3)]
    costs = [driver.cost(owner) for owner in (*owners, *edits)]
    assert sum(cost.unet_evaluations for cost in costs) == counting.cost.unet_evaluations
    assert sum(cost.unet_backward_evaluations for cost in costs) == counting.cost.unet_backward_evaluations


def test_walks_share_calls() -> None:
    def calls(kinds: Sequence[str]) -> int:
        counting = CountingDenoiser(TinyAttention())
        Driver(counting).run_all([walk(kind, torch.float64) for kind in kinds])
        return counting.cost.unet_calls

    assert calls(("generate", "direct", "negative-prompt", "edit")) == max(3, 4, 2 * 3, 4)


@pytest.mark.parametrize("batch", [1, 3])
def test_no_call_exceeds_the_batch_size(batch: int) -> None:
    model, rows = TinyAttention(), [(0, False)]

    def watched(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        rows.append((latents.shape[0], text.requires_grad))
        return model(latents, timestep, text, control)

    Driver(watched, batch=batch).run_all([walk(kind, torch.float64) for kind in KINDS])
    assert max(count for count, _ in rows) == 2 * batch
    assert max(count for count, backward in rows if backward) == batch


def test_cancellation_is_checked_before_every_call() -> None:
    counting, polls = CountingDenoiser(TinyAttention()), list[int]()

    def asked() -> bool:
        polls.append(counting.cost.unet_calls)
        return counting.cost.unet_calls >= 7

    with pytest.raises(Cancelled):
        Driver(counting, batch=2, cancelled=asked).run(walk("null-text edit", torch.float64))
    assert polls == list(range(8))
