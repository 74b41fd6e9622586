import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.generate import (
    GuidedPrompts,
    consistency_walk,
    noise_of_each_step,
    scheduled_walk,
    starting_noise,
)
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.errors import Cancelled
from evaluation.reference.plain_driver import Driver, generate
from evaluation.reference.plain_editing import call, denoise, timesteps
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS = 10
TABLE = NoiseSchedule().timetable(STEPS)
FEW = NoiseSchedule(spacing="distilled").timetable(3)
TEXT, NULL = draw(3, LENGTH, WIDTH, seed=6), draw(LENGTH, WIDTH, seed=9)
SHAPE = (2, 4, 4)


def prompted(count: int, guidance: float) -> GuidedPrompts:
    """The first ``count`` prompts, each image its own owner."""
    return GuidedPrompts(text=TEXT[:count], null=NULL, guidance=guidance, owners=range(count))


def test_noise_is_determined_by_its_seed() -> None:
    noise = starting_noise([7, 8, 7], SHAPE)
    assert torch.equal(noise[0], noise[2])
    assert not torch.equal(noise[0], noise[1])
    assert torch.equal(noise[1], starting_noise([8], SHAPE)[0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_an_image_does_not_depend_on_its_batch(dtype: torch.dtype, tolerance: float) -> None:
    model, noise = TinyAttention(dtype=dtype), starting_noise([1, 2, 3], SHAPE).to(dtype)
    text, null = TEXT.to(dtype), NULL.to(dtype)
    together = generate(model, TABLE, noise, text, null, guidance=3.0)
    for row in range(3):
        one = slice(row, row + 1)
        alone = generate(model, TABLE, noise[one], text[one], null, guidance=3.0)
        assert torch.allclose(alone[0], together[row], atol=tolerance)


def test_sampling_matches_the_oracle() -> None:
    model, noise = TinyAttention(), starting_noise([4], SHAPE).double()
    z = noise
    for t in timesteps(STEPS):
        uncond, cond = call(model, z, t, NULL[None]), call(model, z, t, TEXT[:1])
        z = denoise(z, uncond + 2.5 * (cond - uncond), t, STEPS)
    assert torch.allclose(generate(model, TABLE, noise, TEXT[:1], NULL, guidance=2.5), z, atol=1e-10)


def test_cancellation_stops_generation() -> None:
    polls = iter([False, False, True])
    with pytest.raises(Cancelled):
        generate(
            TinyAttention(),
            TABLE,
            starting_noise([1], SHAPE).double(),
            TEXT[:1],
            NULL,
            guidance=2.0,
            cancelled=lambda: next(polls),
        )


def test_noise_starts_at_the_initial_noise_and_is_redrawn_each_step() -> None:
    noise = noise_of_each_step([7, 8], FEW.steps, SHAPE)
    assert torch.equal(noise[:, 0], starting_noise([7, 8], SHAPE))
    assert not torch.equal(noise[0, 1], noise[0, 0])
    assert torch.equal(noise[1:], noise_of_each_step([8], FEW.steps, SHAPE))


@pytest.mark.parametrize("guidance", [1.0, 2.5])
def test_each_step_predicts_the_image_and_mixes_it_with_new_noise(guidance: float) -> None:
    model, noise = CountingDenoiser(TinyAttention()), noise_of_each_step([1, 2], FEW.steps, SHAPE).double()
    walk = consistency_walk(FEW, noise, prompted(2, guidance))
    made = Driver(model).run(walk)
    assert model.cost.unet_evaluations == (2 if guidance == 1.0 else 4) * FEW.steps
    for row in range(2):
        z = clean = noise[row, 0]
        for i, t in enumerate(FEW.timesteps):
            alpha, sigma = math.sqrt(FEW.levels[i]), math.sqrt(1 - FEW.levels[i])
            if i:
                z = alpha * clean + sigma * noise[row, i]
            null, text = (
                TinyAttention()(z[None], torch.tensor([t]), words[None])[0] for words in (NULL, TEXT[row])
            )
            clean = (z - sigma * (null + guidance * (text - null))) / alpha
        assert torch.allclose(made[row], clean, atol=1e-10, rtol=0)


@dataclass
class Halving:
    """Shows the network scaled latents and adds a fraction of its output, at fractional timesteps."""

    timesteps: tuple[float, ...] = (900.0, 450.5, 450.5)
    steps_taken: list[int] = field(default_factory=list)

    def begin(self, noise: Tensor) -> Tensor:
        return 3.0 * noise

    def seen(self, latents: Tensor, index: int) -> Tensor:
        return latents / (2 + index)

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        self.steps_taken.append(index)
        return latents + output / (2 + index)


@pytest.mark.parametrize(("guidance", "evaluations"), [(2.5, 6), (1.0, 3)])
def test_scheduled_steps_match_the_written_out_formula(guidance: float, evaluations: int) -> None:
    model, noise = TinyAttention(), draw(3, 2, 4, 4, seed=4)
    latents = 3.0 * noise
    for index, timestep in enumerate((900.0, 450.5, 450.5)):
        seen, at = latents / (2 + index), torch.full((3,), timestep)
        uncond, cond = model(seen, at, NULL.expand(3, -1, -1)), model(seen, at, TEXT)
        latents = latents + (uncond + guidance * (cond - uncond)) / (2 + index)
    driver, scheduler = Driver(model), Halving()
    walk = scheduled_walk(scheduler, noise, prompted(3, guidance))
    assert torch.allclose(driver.run(walk), latents, atol=1e-10)
    assert scheduler.steps_taken == [0, 1, 2]
    assert [driver.cost(owner).unet_evaluations for owner in range(3)] == [evaluations] * 3


def test_whole_timesteps_stay_whole_numbers() -> None:
    asked: list[Tensor] = []

    def noting(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        asked.append(timestep)
        return latents

    for levels in ((900.0, 450.5), (900.0, 450.0)):
        noise = draw(1, 2, 4, 4, seed=4)
        walk = scheduled_walk(Halving(levels), noise, prompted(1, 1.0))
        Driver(noting).run(walk)
    assert [each.dtype for each in asked] == [torch.int64, torch.float32, torch.int64, torch.int64]
    assert [each.item() for each in asked] == [900, 450.5, 900, 450]
