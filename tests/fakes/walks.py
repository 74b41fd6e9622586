"""Walks of every kind over a toy denoiser, for tests of what runs them."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.branches import Branches, EditSettings, EditTask
from counterpose_core.editing.driver.evaluation import Walk
from counterpose_core.editing.edit import edit_walk
from counterpose_core.editing.generate import GuidedPrompts, generate_walk
from counterpose_core.editing.inversion.null_text import NullTextSettings, null_text_walk
from counterpose_core.editing.inversion.tuning_free import direct_walk, negative_prompt_walk
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from evaluation.reference.plain_driver import Driver, direct_inversion
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

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
