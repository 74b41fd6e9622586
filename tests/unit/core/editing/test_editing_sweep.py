"""A sweep from its largest value down gives the results of the whole sweep for fewer evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.edit import Edited, EditSettings, EditTask
from counterpose_core.editing.local_blend import BlendWords
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.editing.sweep import Fork, fork_steps, latest_fork
from counterpose_core.stress_test.sweep import rounds
from evaluation.reference.plain_driver import direct_inversion, edit
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS, CROSS = 10, 0.6
SWEEP = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
TABLE = NoiseSchedule().timetable(STEPS)
TEXT, EDITED_TEXT = draw(2, LENGTH, WIDTH, seed=6), draw(3, LENGTH, WIDTH, seed=7)
MODEL = TinyAttention()
INVERTED = direct_inversion(MODEL, TABLE, 3 * draw(2, 2, 4, 4, seed=5), TEXT, draw(LENGTH, WIDTH, seed=9))


def words(*ids: int) -> TokenizedPrompt:
    return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))


SWAP, INSERTION = align(words(5, 6, 7), words(5, 9, 7)), align(words(5, 6), words(5, 9, 6))


def task(source: int, alignment: Alignment, row: int, *, blend: bool = False) -> EditTask:
    look = BlendWords.of(alignment, LENGTH) if blend else None
    return EditTask(source, EDITED_TEXT[row], cross_edit(alignment, LENGTH, word_weight=2.0), look)


TASKS = [task(0, SWAP, 0), task(1, INSERTION, 1), task(0, INSERTION, 2, blend=True)]


def run(
    tasks: Sequence[EditTask], values: tuple[float, ...], *, batch: int = 16, steps: tuple[int, ...] = ()
) -> tuple[Edited, int]:
    counting = CountingDenoiser(MODEL)
    settings = EditSettings(
        guidance=3.0, cross_replace=CROSS, self_replace=values, batch=batch, fork_steps=steps
    )
    edited = edit(counting, TABLE, INVERTED, TEXT, tasks, settings)
    assert sum(cost.unet_evaluations for cost in edited.costs) == counting.cost.unet_evaluations
    return edited, counting.cost.unet_evaluations


def lazily(passing: Sequence[int], *, batch: int = 16) -> tuple[dict[tuple[int, float], Tensor], int]:
    """Try values from the largest down; task i passes in round ``passing[i]``, or never if there is none."""
    found: dict[tuple[int, float], Tensor] = {}
    taken = 0
    forks: dict[int, list[Fork]] = {i: [] for i in range(len(TASKS))}
    for number, values in enumerate(rounds(SWEEP, TABLE.first, "released")):
        trying = [i for i in forks if passing[i] >= number]
        if not trying:
            break
        starts = [replace(TASKS[i], start=latest_fork(forks[i], TABLE, values)) for i in trying]
        edited, count = run(starts, values, batch=batch, steps=fork_steps(TABLE, SWEEP))
        taken += count
        for row, i in enumerate(trying):
            forks[i] = forks[i] or edited.forks[row]
            found |= {(i, value): edited.latents[row, j] for j, value in enumerate(values)}
    return found, taken


WHOLE, WHOLE_COUNT = run(TASKS, SWEEP)


@pytest.mark.paper("LANCE-C-selection")
@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_lazily_tried_values_equal_the_whole_sweep(passing: list[int]) -> None:
    found, _ = lazily(passing)
    for (i, value), latents in found.items():
        assert torch.allclose(latents, WHOLE.latents[i, SWEEP.index(value)], atol=1e-12, rtol=0)
    assert len(found) == sum(min(last + 1, len(SWEEP)) for last in passing)


def test_resuming_from_a_fork_reproduces_the_whole_edit() -> None:
    whole = run(TASKS, SWEEP, batch=1)[0].latents
    found, _ = lazily([5, 5, 5], batch=1)
    for (i, value), latents in found.items():
        assert torch.allclose(latents, whole[i, SWEEP.index(value)], atol=1e-12, rtol=0)


@pytest.mark.parametrize("passing", [(0, 0, 0), (1, 0, 0), (2, 2, 0), (3, 5, 1), (5, 5, 5)])
def test_only_evaluations_after_a_fork_are_counted(passing: tuple[int, int, int]) -> None:
    """Two a target and step, and one an image and step for as long as anything of it is looked at."""
    ends = [round(value * STEPS) for value in sorted(SWEEP, reverse=True)]
    firsts = [0, *ends[1:]]
    targets = sum(2 * (STEPS - first) for last in passing for first in firsts[: last + 1])
    sources = 0
    for number, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        trying = [TASKS[i] for i, last in enumerate(passing) if last >= number]
        blended = {task.source for task in trying if task.blend_words is not None}
        for source in {task.source for task in trying}:
            # Attention is looked at while it is carried over; a blended edit looks to its end.
            looked = STEPS if source in blended else max(end, round(CROSS * STEPS))
            sources += max(0, looked - first)
    assert lazily(passing)[1] == targets + sources
    # All values of the sweep at once take as many of the targets' evaluations as if none ever passes.
    assert targets <= 3 * 2 * (STEPS + sum(STEPS - end for end in ends[1:]))
    assert lazily([5, 5, 5])[1] - WHOLE_COUNT <= sum(max(0, STEPS - first) for first in firsts[1:]) * 2


def test_no_value_starts_past_the_end_of_its_injection() -> None:
    forks = [Fork(step, TEXT) for step in (4, 5, 8)]
    assert latest_fork(forks, TABLE, (0.7, 0.9)) == forks[1]
    assert latest_fork(forks, TABLE, (0.3,)) is None
    with pytest.raises(ValueError, match="step 8 is after"):
        run([replace(TASKS[0], start=forks[2])], (0.7,))


def test_edits_resumed_from_different_steps_end_together() -> None:
    forks = run(TASKS, (0.9,), steps=fork_steps(TABLE, SWEEP))[0].forks
    assert [fork.step for fork in forks[0]] == [4, 5, 6, 7, 8, 9]
    mixed = [replace(TASKS[0], start=forks[0][2]), TASKS[1], replace(TASKS[2], start=forks[2][0])]
    latents = run(mixed, (0.6,))[0].latents
    assert torch.allclose(latents[:, 0], WHOLE.latents[:, 2], atol=1e-12, rtol=0)
