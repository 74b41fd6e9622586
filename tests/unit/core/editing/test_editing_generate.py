import pytest
import torch

from evaluation.reference.plain_editing import call, denoise, timesteps
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw
from faultline_core.editing.generate import generate, starting_noise
from faultline_core.editing.noise_schedule import NoiseSchedule
from faultline_core.errors import Cancelled

STEPS = 10
TABLE = NoiseSchedule().timetable(STEPS)
TEXT, NULL = draw(3, LENGTH, WIDTH, seed=6), draw(LENGTH, WIDTH, seed=9)


def test_noise_is_determined_by_its_seed() -> None:
    noise = starting_noise([7, 8, 7], (2, 4, 4))
    assert torch.equal(noise[0], noise[2])
    assert not torch.equal(noise[0], noise[1])
    assert torch.equal(noise[1], starting_noise([8], (2, 4, 4))[0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_an_image_does_not_depend_on_its_batch(dtype: torch.dtype, tolerance: float) -> None:
    model, noise = TinyAttention(dtype=dtype), starting_noise([1, 2, 3], (2, 4, 4)).to(dtype)
    text, null = TEXT.to(dtype), NULL.to(dtype)
    together = generate(model, TABLE, noise, text, null, guidance=3.0)
    for row in range(3):
        one = slice(row, row + 1)
        alone = generate(model, TABLE, noise[one], text[one], null, guidance=3.0)
        assert torch.allclose(alone[0], together[row], atol=tolerance)


def test_sampling_matches_the_oracle() -> None:
    model, noise = TinyAttention(), starting_noise([4], (2, 4, 4)).double()
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
            starting_noise([1], (2, 4, 4)).double(),
            TEXT[:1],
            NULL,
            guidance=2.0,
            cancelled=lambda: next(polls),
        )
