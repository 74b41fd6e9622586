import pytest
import torch
from diffusers import DDIMScheduler
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from counterpose_core.editing.solvers.ddim import guide, inverse_step, step
from counterpose_core.errors import Cancelled
from evaluation.reference.plain_driver import ddim_inversion
from evaluation.reference.plain_editing import call, invert
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw, linear

PREDICTIONS: tuple[PredictionType, ...] = ("epsilon", "v_prediction")


@pytest.mark.paper("LANCE-T6-scheduler")
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_a_step_matches_diffusers(prediction: PredictionType) -> None:
    theirs = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
        prediction_type=prediction,
    )
    theirs.set_timesteps(10)
    table = NoiseSchedule(prediction=prediction).timetable(10)
    latents, output = draw(2, 4, 3, 3, seed=1), draw(2, 4, 3, 3, seed=2)
    for index in (0, 5, 9):
        expected = theirs.step(output, table.timesteps[index], latents).prev_sample
        assert torch.allclose(step(table, index, latents, output), expected, atol=1e-5)


@pytest.mark.paper("LANCE-S3.2-ddim")
@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("index", [0, 7, 19])
def test_the_inverse_step_undoes_a_step(prediction: PredictionType, index: int) -> None:
    table = NoiseSchedule(prediction=prediction).timetable(20)
    latents, output = draw(1, 4, 3, 3, seed=1), draw(1, 4, 3, 3, seed=2)
    there = step(table, index, latents, output)
    assert torch.allclose(inverse_step(table, index, there, output), latents, atol=1e-12)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_inversion_and_denoising_cancel_for_a_model_that_ignores_its_latents(
    prediction: PredictionType,
) -> None:
    def by_time(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        return torch.ones_like(latents) * (timestep / 500)[:, None, None, None]

    table = NoiseSchedule(prediction=prediction).timetable(20)
    clean, text = draw(2, 3, 4, 4, seed=3), draw(2, LENGTH, WIDTH, seed=4)
    latents = ddim_inversion(by_time, table, clean, text)[:, 0]
    for index in range(20):
        latents = step(table, index, latents, call(by_time, latents, table.timesteps[index], text))
    assert torch.allclose(latents, clean, atol=1e-10)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_round_trip_error_falls_with_the_number_of_steps(prediction: PredictionType) -> None:
    model, clean, text = TinyAttention(), draw(1, 2, 3, 3, seed=3), draw(1, LENGTH, WIDTH, seed=4)
    errors = []
    for steps in (5, 20, 100):
        table = NoiseSchedule(prediction=prediction).timetable(steps)
        latents = ddim_inversion(model, table, clean, text)[:, 0]
        for index in range(steps):
            latents = step(table, index, latents, call(model, latents, table.timesteps[index], text))
        errors.append(float((latents - clean).abs().max()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.paper("LANCE-S3.2-ddim", "LANCE-S3.2-pivot")
@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_inversion_matches_the_oracle(prediction: PredictionType) -> None:
    model, clean, text = TinyAttention(), draw(3, 2, 4, 4, seed=5), draw(3, LENGTH, WIDTH, seed=6)
    trajectory = ddim_inversion(model, NoiseSchedule(prediction=prediction).timetable(10), clean, text)
    for row in range(3):
        one = slice(row, row + 1)
        plain = invert(model, clean[one], text[one], 10, velocity=prediction == "v_prediction")
        assert torch.allclose(trajectory[row], torch.cat(plain[::-1]), atol=1e-10)


@pytest.mark.paper("LANCE-S3.2-cfg")
def test_guidance_of_one_gives_the_conditional_output() -> None:
    uncond, cond = draw(1, 2, 2, 2, seed=1), draw(1, 2, 2, 2, seed=2)
    assert torch.allclose(guide(uncond, cond, 1.0), cond, atol=1e-15)
    assert torch.allclose(guide(uncond, cond, 3.0), 3 * cond - 2 * uncond, atol=1e-14)


def test_cancellation_stops_between_two_steps() -> None:
    calls: list[int] = []

    def counted(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        calls.append(1)
        return linear(latents, timestep, text)

    clean, text = draw(1, 2, 3, 3, seed=3), draw(1, LENGTH, WIDTH, seed=4)
    with pytest.raises(Cancelled):
        ddim_inversion(counted, NoiseSchedule().timetable(20), clean, text, cancelled=lambda: len(calls) == 7)
    assert len(calls) == 7
