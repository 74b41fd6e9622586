import math

import pytest
import torch

from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw
from faultline_core.editing.denoiser import CountingDenoiser
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.generate import starting_noise
from faultline_core.editing.noise_schedule import NoiseSchedule
from faultline_core.editing.solvers.consistency import consistency_walk, noise_of_each_step

STEPS = 3
TABLE = NoiseSchedule(spacing="distilled").timetable(STEPS)
TEXT, NULL = draw(2, LENGTH, WIDTH, seed=6), draw(LENGTH, WIDTH, seed=9)
SHAPE = (2, 4, 4)


def test_noise_starts_at_the_initial_noise_and_is_redrawn_each_step() -> None:
    noise = noise_of_each_step([7, 8], STEPS, SHAPE)
    assert torch.equal(noise[:, 0], starting_noise([7, 8], SHAPE))
    assert not torch.equal(noise[0, 1], noise[0, 0])
    assert torch.equal(noise[1:], noise_of_each_step([8], STEPS, SHAPE))


@pytest.mark.parametrize("guidance", [1.0, 2.5])
def test_each_step_predicts_the_image_and_mixes_it_with_new_noise(guidance: float) -> None:
    model, noise = CountingDenoiser(TinyAttention()), noise_of_each_step([1, 2], STEPS, SHAPE).double()
    walk = consistency_walk(TABLE, noise, TEXT, NULL, guidance=guidance, owners=range(2))
    made = Driver(model).run(walk)
    assert model.cost.unet_evaluations == (2 if guidance == 1.0 else 4) * STEPS
    for row in range(2):
        z = clean = noise[row, 0]
        for i, t in enumerate(TABLE.timesteps):
            alpha, sigma = math.sqrt(TABLE.levels[i]), math.sqrt(1 - TABLE.levels[i])
            if i:
                z = alpha * clean + sigma * noise[row, i]
            null, text = (
                TinyAttention()(z[None], torch.tensor([t]), words[None])[0] for words in (NULL, TEXT[row])
            )
            clean = (z - sigma * (null + guidance * (text - null))) / alpha
        assert torch.allclose(made[row], clean, atol=1e-10, rtol=0)
