"""The losses of the generator's stages, checked against values worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL

from counterpose_core.editing.noise_schedule import NoiseSchedule as EditingSchedule
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import step
from counterpose_miniature.training.autoencoder import (
    build_autoencoder,
    image_error,
    restore,
    to_tensor,
    training_state,
)
from counterpose_miniature.training.decoder import decoder_loss
from counterpose_miniature.training.degradation import degrade
from counterpose_miniature.training.denoiser import NoiseSchedule
from counterpose_miniature.training.denoiser_model import Widths, build_denoiser, build_text_encoder
from counterpose_miniature.training.denoiser_quality import sheet_of
from counterpose_miniature.training.latents import sampled
from counterpose_miniature.training.probe import Probe, agreement
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_miniature.world.grammar import words
from counterpose_miniature.world.sampling import UNIFORM
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for

TINY = Widths(levels=(8, 8, 16), text=16, text_layers=1)


@dataclass
class Painter:
    """A decoder that always returns the same image."""

    image: torch.Tensor

    def decode(self, latents: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=self.image.expand(len(latents), -1, -1, -1))


def painted_loss(image: torch.Tensor) -> float:
    model = cast(AutoencoderKL, Painter(image))
    latents, images = torch.zeros(2, 4, 2, 2), torch.zeros(2, 3, 8, 8)
    return float(decoder_loss(model, latents, images, torch.zeros(2, 8, 8, dtype=torch.uint8)))


def test_an_error_on_the_object_counts_twice() -> None:
    error, masks = torch.full((1, 3, 4, 4), 0.5), torch.zeros(1, 4, 4, dtype=torch.uint8)
    assert float(image_error(error, masks)) == pytest.approx(0.5 + 0.25)
    assert float(image_error(error, masks + 255)) == pytest.approx(2 * (0.5 + 0.25))
    masks[:, :2] = 255
    assert float(image_error(error, masks)) == pytest.approx(1.5 * (0.5 + 0.25))


def test_the_gradient_term_counts_wrong_edges_not_wrong_levels() -> None:
    level = torch.full((1, 3, 8, 8), 0.5)
    assert painted_loss(level) == pytest.approx(0.5 + 0.25)
    edge = torch.zeros(1, 3, 8, 8)
    edge[..., 4:] = 1.0
    # Half of the pixels are wrong by one, and one of seven differences between columns is.
    assert painted_loss(edge) == pytest.approx(0.5 * 2.0 + 0.5 / 7)


def test_an_untrained_posterior_is_narrow() -> None:
    model = build_autoencoder((8, 8, 16), seed=0)
    posterior = model.encode(to_tensor(np.zeros((1, 64, 64, 3), np.uint8))).latent_dist
    assert posterior.mean.shape == (1, 4, 16, 16)
    assert float(posterior.std.detach().max()) < 0.3


def test_an_autoencoder_resumes_from_its_checkpoint() -> None:
    first, second = (build_autoencoder((8, 8, 16), seed) for seed in (0, 1))
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (first, second)]
    assert restore(None, second, optimizers[1]) == 0
    assert restore(training_state(first, optimizers[0], 7), second, optimizers[1]) == 7
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_latents_are_sampled_with_the_posterior_s_mean_and_deviation() -> None:
    moments = torch.zeros(2, 8, 40, 40)
    moments[:, :4], moments[:, 4:] = 3.0, 2 * float(np.log(0.5))
    drawn = sampled(moments, torch.Generator().manual_seed(0))
    assert float(drawn.mean()) == pytest.approx(3.0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(0.5, abs=0.02)
    assert torch.equal(drawn, sampled(moments, torch.Generator().manual_seed(0)))


def test_the_generator_trains_on_the_editor_s_schedule() -> None:
    levels = EditingSchedule(prediction="v_prediction").alphas_cumprod()
    assert torch.allclose(NoiseSchedule().signal.double() ** 2, levels, atol=1e-6)


@pytest.mark.parametrize("time", [0, 300, 999])
def test_one_editing_step_with_the_target_velocity_gives_clean_latents(time: int) -> None:
    schedule, drawing = NoiseSchedule(), torch.Generator().manual_seed(time)
    clean, noise = (torch.randn(2, 4, 3, 3, generator=drawing) for _ in range(2))
    noised, velocity = schedule.noised(clean, noise, torch.tensor([time, time]))
    table = Timetable((time,), (float(schedule.signal[time]) ** 2, 1.0), "v_prediction")
    assert torch.allclose(step(table, 0, noised, velocity), clean, atol=1e-4)


def test_the_end_token_id_does_not_trigger_clip_s_legacy_pooling() -> None:
    encoder = build_text_encoder(TINY, build_tokenizer(words()))
    assert encoder.config.eos_token_id not in (2, None)


def test_the_denoiser_attends_to_text_on_all_but_the_coarsest_level() -> None:
    denoiser = build_denoiser(TINY)
    crossed = [name for name in denoiser.attn_processors if "attn2" in name]
    assert {name.split(".transformer")[0].split(".attentions")[0] for name in crossed} == {
        "down_blocks.0", "down_blocks.1", "mid_block", "up_blocks.1", "up_blocks.2",
    }  # fmt: skip
    assert denoiser.config.cross_attention_dim == TINY.text


class KnowingProbe(Probe):
    """A probe that reads the values of given scenes."""

    def __init__(self, scenes: list[Scene]) -> None:
        super().__init__()
        rows = [[value == getattr(s, name) for name in ATTRIBUTES for value in VALUES[name]] for s in scenes]
        self.rows = list(torch.tensor(rows).float().split(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.rows.pop(0) for _ in images])


def test_agreement_is_the_share_of_images_that_show_a_value() -> None:
    scenes = [scene_for(DEVELOPMENT, index, UNIFORM) for index in range(8)]
    others = [scene.changed("colour", "red") for scene in scenes]
    images = np.zeros((8, 64, 64, 3), np.uint8)
    rates = agreement(KnowingProbe(scenes), images, others)
    reds = sum(scene.colour == "red" for scene in scenes)
    assert rates == dict.fromkeys(ATTRIBUTES, 1.0) | {"colour": reds / 8}


def test_the_probe_has_a_logit_for_every_value() -> None:
    logits = Probe().eval()(torch.zeros(2, 3, 64, 64))
    assert logits.shape == (2, sum(len(values) for values in VALUES.values()))


def test_a_sample_sheet_is_padded_with_black() -> None:
    sheet = sheet_of(np.full((3, 64, 64, 3), 200, np.uint8), columns=2)
    assert sheet.size == (256, 256)
    assert sheet.getpixel((10, 200)) == (200, 200, 200)
    assert sheet.getpixel((200, 200)) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_degradation_changes_images_only_moderately(seed: int) -> None:
    checks = ((torch.arange(64)[:, None] // 8 + torch.arange(64) // 8) % 2).float()
    images = (0.25 + 0.5 * checks).expand(24, 3, 64, 64)
    spoilt = degrade(images, torch.Generator().manual_seed(seed))
    assert float((spoilt.mean(dim=(1, 2, 3)) - 0.5).abs().max()) < 0.12
    moved = (spoilt - images).abs().mean(dim=(1, 2, 3))
    assert float(moved.max()) < 0.25
    assert float(moved.min()) < 0.02 < float(moved.max())


def test_each_image_of_a_batch_is_degraded_independently() -> None:
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(9)).expand(16, -1, -1, -1)
    spoilt = degrade(images, torch.Generator().manual_seed(1))
    assert len({each.numpy().tobytes() for each in spoilt}) == 16
