from functools import cache

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, CountingDenoiser
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.errors import Cancelled
from evaluation.reference.plain_driver import null_text_inversion
from evaluation.reference.plain_editing import invert, null_text
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

STEPS = 4
TABLE = NoiseSchedule().timetable(STEPS)
NULL = draw(LENGTH, WIDTH, seed=9)
SETTINGS = NullTextSettings(guidance=2.0, tolerance=0.05)


def images(count: int) -> tuple[Tensor, Tensor]:
    return draw(count, 2, 4, 4, seed=5), draw(count, LENGTH, WIDTH, seed=6)


@cache
def inverted(settings: NullTextSettings = SETTINGS, row: int | None = None) -> Inverted:
    rows = slice(None) if row is None else slice(row, row + 1)
    clean, text = (part[rows] for part in images(3))
    return null_text_inversion(TinyAttention(), TABLE, clean, text, NULL, settings)


@pytest.mark.paper("LANCE-EQ1-null-text", "LANCE-C-inner-rate", "LANCE-C-early-stop")
def test_embeddings_and_iteration_counts_match_the_oracle() -> None:
    fast, (clean, text) = inverted(), images(3)
    for row in range(3):
        one = slice(row, row + 1)
        path = invert(TinyAttention(), clean[one], text[one], STEPS)
        plain = null_text(TinyAttention(), path, text[one], NULL[None], guidance=2.0, tolerance=0.05)
        assert fast.inner_iterations[row].tolist() == plain.iterations
        assert torch.allclose(fast.uncond[row], torch.cat(plain.embeddings), atol=1e-10, rtol=0)
        assert torch.allclose(fast.trajectory[row], torch.cat(plain.visited), atol=1e-10, rtol=0)


@pytest.mark.parametrize("settings", [SETTINGS, NullTextSettings(guidance=4.0, inner_steps=3)])
def test_velocity_model_optimisation_matches_the_oracle(settings: NullTextSettings) -> None:
    clean, text = images(1)
    table = NoiseSchedule(prediction="v_prediction").timetable(STEPS)
    fast = null_text_inversion(TinyAttention(), table, clean, text, NULL, settings)
    plain = null_text(
        TinyAttention(), invert(TinyAttention(), clean, text, STEPS, velocity=True), text, NULL[None],
        guidance=settings.guidance, inner_steps=settings.inner_steps, tolerance=settings.tolerance,
        velocity=True,
    )  # fmt: skip
    assert fast.inner_iterations[0].tolist() == plain.iterations
    assert torch.allclose(fast.uncond[0], torch.cat(plain.embeddings), atol=1e-10, rtol=0)
    assert torch.allclose(fast.trajectory[0], torch.cat(plain.visited), atol=1e-10, rtol=0)


@pytest.mark.paper("LANCE-C-early-stop")
def test_each_image_stops_at_its_own_iteration() -> None:
    counts = inverted().inner_iterations
    assert len({tuple(row) for row in counts.tolist()}) > 1
    assert 1 <= int(counts.min()) < int(counts.max()) <= 10


def test_results_do_not_depend_on_the_batch() -> None:
    together = inverted()
    for row in range(3):
        alone = inverted(row=row)
        assert torch.allclose(alone.uncond[0], together.uncond[row], atol=1e-10, rtol=0)
        assert alone.inner_iterations[0].tolist() == together.inner_iterations[row].tolist()


@pytest.mark.paper("LANCE-EQ1-null-text")
def test_it_reconstructs_better_than_plain_guidance() -> None:
    clean = images(3)[0]
    kept = inverted(NullTextSettings(guidance=2.0, inner_steps=0))
    errors = [float((each.reconstruction - clean).square().mean()) for each in (inverted(), kept)]
    assert errors[0] < 0.5 * errors[1]


def test_finished_images_leave_the_batch() -> None:
    counting, (clean, text) = CountingDenoiser(TinyAttention()), images(3)
    result = null_text_inversion(counting, TABLE, clean, text, NULL, SETTINGS)
    inner = int(result.inner_iterations.sum())
    assert counting.cost.unet_evaluations == 3 * STEPS * 3 + inner
    assert counting.cost.unet_backward_evaluations == inner
    assert counting.cost.unet_calls == 3 * STEPS + int(result.inner_iterations.max(dim=0).values.sum())


def test_a_nan_image_does_not_affect_its_batch() -> None:
    clean, text = images(3)
    spoilt = clean.clone()
    spoilt[1, 0, 0, 0] = torch.nan
    result = null_text_inversion(TinyAttention(), TABLE, spoilt, text, NULL, SETTINGS)
    assert result.finite.tolist() == [True, False, True]
    kept = [0, 2]
    assert torch.allclose(result.uncond[kept], inverted().uncond[kept], atol=1e-10, rtol=0)


def test_cancellation_stops_between_inner_iterations() -> None:
    polls = iter([False] * (STEPS + 4))
    clean, text = images(1)
    counting = CountingDenoiser(TinyAttention())
    with pytest.raises(Cancelled):
        null_text_inversion(counting, TABLE, clean, text, NULL, SETTINGS, cancelled=lambda: next(polls, True))
    assert counting.cost.unet_calls == STEPS + 1 + 3


def test_model_weights_need_no_gradient() -> None:
    seen: list[tuple[bool, bool]] = []
    model = TinyAttention()

    def watched(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        seen.append((latents.requires_grad, text.requires_grad))
        return model(latents, timestep, text, control)

    clean, text = images(1)
    result = null_text_inversion(watched, TABLE, clean, text, NULL, NullTextSettings(inner_steps=1))
    assert not any(latents for latents, _ in seen)
    assert sum(embedding for _, embedding in seen) == STEPS
    assert not result.uncond.requires_grad


@pytest.mark.paper("LANCE-C-inner-rate")
def test_the_learning_rate_never_turns_negative() -> None:
    assert NullTextSettings().learning_rate_at(50) == pytest.approx(5e-3)
    assert NullTextSettings().learning_rate_at(150) == 0.0
    assert NullTextSettings().tolerance_at(10) == pytest.approx(2.1e-4)
