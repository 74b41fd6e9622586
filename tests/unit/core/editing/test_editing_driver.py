"""Walks that share calls: each gives the same result as alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw
from faultline_core.editing.attention_control import cross_edit
from faultline_core.editing.branches import Branches, EditSettings, EditTask
from faultline_core.editing.denoiser import AttentionControl, CountingDenoiser
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Walk
from faultline_core.editing.edit import edit_walk
from faultline_core.editing.generate import GuidedPrompts, generate_walk
from faultline_core.editing.inversion.null_text import NullTextSettings, null_text_walk
from faultline_core.editing.inversion.tuning_free import direct_inversion, direct_walk, negative_prompt_walk
from faultline_core.editing.noise_schedule import NoiseSchedule
from faultline_core.editing.prompt_alignment import TokenizedPrompt, align
from faultline_core.errors import Cancelled

SHORT, LONG = NoiseSchedule().timetable(3), NoiseSchedule().timetable(4)
KINDS = ("generate", "direct", "negative-prompt", "edit", "null-text", "null-text edit")
CONTROLS = cross_edit(
    align(*(TokenizedPrompt((0, 5, word, 7, 1), (None, 0, 1, 2, None)) for word in (6, 9))),
    LENGTH,
    word_weight=2.0,
)
SWEEP = EditSettings(guidance=2.0, cross_replace=0.5, self_replace=(0.3, 0.8))
INNER = NullTextSettings(guidance=2.0, inner_steps=3, tolerance=0.05)


def tensors(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = ((2, 2, 4, 4), (2, LENGTH, WIDTH), (LENGTH, WIDTH), (3, LENGTH, WIDTH))
    clean, text, null, edited = (draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
    return clean, text, null, edited


def branches(kind: str, edited: Tensor) -> Branches:
    tasks = [EditTask(source, row, CONTROLS) for source, row in zip((0, 1, 0), edited, strict=False)]
    return Branches(LONG, tasks, SWEEP, [(kind, "edit", row) for row in range(len(tasks))])


def walk(kind: str, dtype: torch.dtype) -> Walk[Tensor]:
    """A walk with its own timetable and owners that returns all its results in one row of numbers."""
    (clean, text, null, edited), owners = tensors(dtype), [(kind, 0), (kind, 1)]
    if kind == "generate":
        prompts = GuidedPrompts(text=text, null=null, guidance=3.0, owners=owners)
        found = [(yield from generate_walk(SHORT, clean, prompts))]
    elif kind == "direct":
        found = [(yield from direct_walk(LONG, clean, text, null, owners)).trajectory]
    elif kind == "negative-prompt":
        found = [(yield from negative_prompt_walk(SHORT, clean, text, owners)).trajectory]
    elif kind == "edit":
        inverted = direct_inversion(TinyAttention(dtype=dtype), LONG, clean, text, null)
        found = [(yield from edit_walk(LONG, inverted, text, branches(kind, edited)))]
    else:
        riding = branches(kind, edited if kind == "null-text edit" else edited[:0])
        inverted = yield from null_text_walk(LONG, clean, text, null, INNER, owners, riding)
        found = [inverted.trajectory, inverted.uncond, inverted.inner_iterations.to(dtype)]
        found += [riding.collect()] if kind == "null-text edit" else []
    return torch.cat([part.flatten() for part in found])


DTYPES = {torch.float64: 1e-10, torch.float32: 1e-5}


@cache
def alone(kind: str, dtype: torch.dtype) -> Tensor:
    return Driver(TinyAttention(dtype=dtype)).run(walk(kind, dtype))


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
