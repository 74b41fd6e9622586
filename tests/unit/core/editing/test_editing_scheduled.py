from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.solvers.scheduled import scheduled_walk

TEXT, NULL = draw(3, LENGTH, WIDTH, seed=6), draw(LENGTH, WIDTH, seed=9)


@dataclass
class Halving:
    """Shows half the latents, and goes half an output further, at levels that are not whole."""

    timesteps: tuple[float, ...] = (900.0, 450.5, 450.5)
    told: list[int] = field(default_factory=list)

    def begin(self, noise: Tensor) -> Tensor:
        return 3.0 * noise

    def seen(self, latents: Tensor, index: int) -> Tensor:
        return latents / (2 + index)

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        self.told.append(index)
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
    walk = scheduled_walk(scheduler, noise, TEXT, NULL, guidance=guidance, owners=range(3))
    assert torch.allclose(driver.run(walk), latents, atol=1e-10)
    assert scheduler.told == [0, 1, 2]
    assert [driver.cost(owner).unet_evaluations for owner in range(3)] == [evaluations] * 3


def test_whole_timesteps_stay_whole_numbers() -> None:
    asked: list[Tensor] = []

    def noting(latents: Tensor, timestep: Tensor, text: Tensor, control: object = None) -> Tensor:
        asked.append(timestep)
        return latents

    for timesteps in ((900.0, 450.5), (900.0, 450.0)):
        noise = draw(1, 2, 4, 4, seed=4)
        walk = scheduled_walk(Halving(timesteps), noise, TEXT[:1], NULL, guidance=1.0, owners=[0])
        Driver(noting).run(walk)
    assert [each.dtype for each in asked] == [torch.int64, torch.float32, torch.int64, torch.int64]
    assert [each.item() for each in asked] == [900, 450.5, 900, 450]
