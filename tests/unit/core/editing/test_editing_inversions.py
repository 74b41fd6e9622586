import pytest
import torch

from counterpose_core.editing.denoiser import CountingDenoiser
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from evaluation.reference.plain_driver import direct_inversion, negative_prompt_inversion
from evaluation.reference.plain_editing import invert, negative_prompt
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS = 10
TABLE = NoiseSchedule().timetable(STEPS)
CLEAN, TEXT = draw(2, 2, 4, 4, seed=5), draw(2, LENGTH, WIDTH, seed=6)
NULL = draw(LENGTH, WIDTH, seed=9)


def test_direct_inversion_reconstructs_exactly() -> None:
    result = direct_inversion(TinyAttention(), TABLE, CLEAN, TEXT, NULL)
    assert torch.equal(result.reconstruction, CLEAN)
    assert torch.equal(result.uncond_at(3), NULL.expand(2, -1, -1))
    assert result.inner_iterations.tolist() == [[0] * STEPS] * 2


def test_direct_inversion_costs_one_evaluation_per_step_and_image() -> None:
    counting = CountingDenoiser(TinyAttention())
    direct_inversion(counting, TABLE, CLEAN, TEXT, NULL)
    assert (counting.cost.unet_calls, counting.cost.unet_evaluations) == (STEPS, 2 * STEPS)
    assert counting.cost.unet_backward_evaluations == 0


def test_negative_prompt_inversion_uses_the_caption_for_both_halves() -> None:
    model = TinyAttention()
    result = negative_prompt_inversion(model, TABLE, CLEAN, TEXT)
    assert torch.equal(result.uncond_at(0), TEXT)
    noise = torch.cat([invert(model, CLEAN[i : i + 1], TEXT[i : i + 1], STEPS)[-1] for i in range(2)])
    assert torch.allclose(result.trajectory[:, 0], noise, atol=1e-10)
    assert 0 < float((result.reconstruction - CLEAN).abs().max()) < 0.5


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("guidance", [1.0, 7.5])
def test_negative_prompt_inversion_matches_the_oracle_at_any_guidance(
    prediction: PredictionType, guidance: float
) -> None:
    model, velocity = TinyAttention(), prediction == "v_prediction"
    table = NoiseSchedule(prediction=prediction).timetable(STEPS)
    fast = negative_prompt_inversion(model, table, CLEAN, TEXT).trajectory
    for row in range(2):
        text = TEXT[row : row + 1]
        path = invert(model, CLEAN[row : row + 1], text, STEPS, velocity=velocity)
        plain = negative_prompt(model, path, text, guidance, velocity=velocity)
        assert torch.allclose(fast[row], torch.cat(plain), atol=1e-10, rtol=0)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_direct_inversion_follows_the_oracle_path(prediction: PredictionType) -> None:
    table = NoiseSchedule(prediction=prediction).timetable(STEPS)
    fast = direct_inversion(TinyAttention(), table, CLEAN, TEXT, NULL).trajectory
    plain = invert(TinyAttention(), CLEAN[:1], TEXT[:1], STEPS, velocity=prediction == "v_prediction")
    assert torch.allclose(fast[0], torch.cat(plain[::-1]), atol=1e-10, rtol=0)


def test_inversions_can_be_split_and_joined() -> None:
    whole = negative_prompt_inversion(TinyAttention(), TABLE, CLEAN, TEXT)
    joined = Inverted.concatenate([whole.select(1), whole.select(0)])
    assert torch.equal(joined.trajectory, whole.trajectory.flip(0))
    assert torch.equal(joined.uncond, whole.uncond.flip(0))


def test_an_inversion_reports_which_images_are_finite() -> None:
    spoilt = CLEAN.clone()
    spoilt[0, 0, 0, 0] = torch.inf
    assert direct_inversion(TinyAttention(), TABLE, spoilt, TEXT, NULL).finite.tolist() == [False, True]
