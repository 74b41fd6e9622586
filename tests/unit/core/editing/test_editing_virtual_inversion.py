import math

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.edit import Edited, EditSettings, EditTask
from counterpose_core.editing.inversion.tuning_free import virtual_inversion
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType, Timetable
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_core.editing.solvers.solver import Consistent
from evaluation.reference.plain_driver import edit
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS = 4
TABLE = NoiseSchedule().timetable(STEPS, spacing="trailing")
CLEAN, NOISE = draw(2, 2, 4, 4, seed=1), draw(2, 2, 4, 4, seed=2)
TEXT, NULL = draw(2, LENGTH, WIDTH, seed=3), draw(LENGTH, WIDTH, seed=4)
EDITED = draw(3, LENGTH, WIDTH, seed=5)
SWEEP = (0.25, 0.75)
WORDS = TokenizedPrompt((0, 5, 6, 1), (None, 0, 1, None)), TokenizedPrompt((0, 5, 9, 1), (None, 0, 1, None))
SAME, SWAP = (align(WORDS[0], other) for other in WORDS)


def task(source: int, text: Tensor, *, changed: bool = True) -> EditTask:
    return EditTask(source, text, cross_edit(SWAP if changed else SAME, LENGTH, word_weight=2.0))


TASKS = [task(0, EDITED[0]), task(1, EDITED[1]), task(0, EDITED[2])]


def run(
    tasks: list[EditTask],
    *,
    table: Timetable = TABLE,
    guidance: float = 3.0,
    cross: float = 0.5,
    sweep: tuple[float, ...] = SWEEP,
    batch: int = 16,
) -> tuple[Edited, CountingDenoiser]:
    counting = CountingDenoiser(TinyAttention())
    inverted = virtual_inversion(table, CLEAN, NULL, NOISE)
    settings = EditSettings(
        guidance=guidance, cross_replace=cross, self_replace=sweep, batch=batch, solver=Consistent()
    )
    return edit(counting, table, inverted, TEXT, tasks, settings), counting


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("guidance", [1.0, 4.0])
def test_an_identity_edit_returns_the_image(prediction: PredictionType, guidance: float) -> None:
    table = NoiseSchedule(prediction=prediction).timetable(STEPS)
    same = [task(row, TEXT[row], changed=False) for row in range(2)]
    edited, _ = run(same, table=table, guidance=guidance)
    assert torch.allclose(edited.latents, CLEAN[:, None].expand(-1, 2, -1, -1, -1), atol=1e-12, rtol=0)


def plain(row: int, text: Tensor, guidance: float) -> Tensor:
    """Xu et al. 2023 in noise terms, one image and edit, no attention carried over."""
    model, z_0, drawn = TinyAttention(), CLEAN[row], NOISE[row]
    z = math.sqrt(TABLE.levels[0]) * z_0 + math.sqrt(1 - TABLE.levels[0]) * drawn
    for i, t in enumerate(TABLE.timesteps):
        alpha, sigma = math.sqrt(TABLE.levels[i]), math.sqrt(1 - TABLE.levels[i])
        source = alpha * z_0 + sigma * drawn

        def noise_in(latents: Tensor, prompt: Tensor, t: int = t) -> Tensor:
            found = [model(latents[None], torch.tensor([t]), words[None])[0] for words in (NULL, prompt)]
            return found[0] + guidance * (found[1] - found[0])

        # The consistent noise of the source is what was drawn; the target is corrected by the same error.
        corrected = noise_in(z, text) - noise_in(source, TEXT[row]) + (source - alpha * z_0) / sigma
        clean = (z - sigma * corrected) / alpha
        z = math.sqrt(TABLE.levels[i + 1]) * clean + math.sqrt(1 - TABLE.levels[i + 1]) * drawn
    # The last level is not entirely clean: the image itself stands there, as in every inversion.
    last = TABLE.levels[-1]
    return z - math.sqrt(last) * z_0 - math.sqrt(1 - last) * drawn + z_0


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_edits_match_the_papers_equations(guidance: float) -> None:
    edited, _ = run(TASKS, guidance=guidance, cross=0.0, sweep=(0.0,))
    for row, one in enumerate(TASKS):
        wanted = plain(one.source, one.text, guidance)
        assert torch.allclose(edited.latents[row, 0], wanted, atol=1e-10, rtol=0)


def test_an_edit_does_not_depend_on_its_batch() -> None:
    together, _ = run(TASKS)
    for row, one in enumerate(TASKS):
        for batch in (1, 16):
            alone, _ = run([one], batch=batch)
            assert torch.allclose(alone.latents[0], together.latents[row], atol=1e-10, rtol=0)


def test_inversion_is_free_and_the_source_is_evaluated_once_per_step_and_half() -> None:
    edited, counting = run(TASKS)
    targets = 3 * 1 + 3 * 2 * (STEPS - 1)
    assert counting.cost.unet_evaluations == 2 * (targets + 2 * STEPS)
    assert sum(cost.unet_evaluations for cost in edited.costs) == counting.cost.unet_evaluations


def test_without_guidance_each_row_is_evaluated_once() -> None:
    edited, counting = run([TASKS[1]], guidance=1.0, sweep=(0.5,))
    assert counting.cost.unet_evaluations == 2 * STEPS
    assert edited.costs[0].unet_evaluations == 2 * STEPS


def test_the_path_runs_from_noise_to_the_image() -> None:
    inverted = virtual_inversion(TABLE, CLEAN, NULL, NOISE)
    assert torch.equal(inverted.reconstruction, CLEAN)
    share = math.sqrt(1 - TABLE.levels[0])
    assert torch.allclose(inverted.trajectory[:, 0] - share * NOISE, math.sqrt(TABLE.levels[0]) * CLEAN)
    assert inverted.inner_iterations.tolist() == [[0] * STEPS] * 2
