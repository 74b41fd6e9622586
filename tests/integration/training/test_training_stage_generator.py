"""The parts of the generator's stages: normalised latents, noise weights, captions and card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from counterpose_miniature.training.autoencoder import build_autoencoder, to_images, to_tensor
from counterpose_miniature.training.denoiser import NoiseSchedule
from counterpose_miniature.training.denoiser_quality import wilson_interval, write_card
from counterpose_miniature.training.images import ImageSet, caption_variants, generator_scenes
from counterpose_miniature.training.latents import channel_statistics, normalise_latents
from counterpose_miniature.training.stage import StageContext
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import is_withheld
from counterpose_miniature.world.seeds import DEVELOPMENT


def test_normalised_latents_have_mean_0_and_deviation_1_and_decode_to_the_same_image() -> None:
    model = build_autoencoder((8, 8, 16), seed=0).eval()
    images = torch.rand((6, 3, 64, 64), generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.no_grad():
        before = model.encode(images).latent_dist
        decoded = model.decode(before.mode()).sample
        mean, deviation = channel_statistics(before.parameters)
        normalise_latents(model, mean, deviation)
        after = model.encode(images).latent_dist
        again = model.decode(after.mode()).sample
    found_mean, found_deviation = channel_statistics(after.parameters)
    assert torch.allclose(found_mean, torch.zeros(4), atol=1e-4)
    assert torch.allclose(found_deviation, torch.ones(4), atol=1e-3)
    assert torch.allclose(decoded, again, atol=1e-4)
    assert model.config.scaling_factor == 1.0


def test_velocity_and_noised_latents_give_back_the_clean_latents() -> None:
    schedule = NoiseSchedule()
    generator = torch.Generator().manual_seed(0)
    clean, noise = torch.randn((2, 3, 4, 2, 2), generator=generator)
    times = torch.tensor([0, 500, 999])
    noised, velocity = schedule.noised(clean, noise, times)
    signal, level = schedule.signal[times, None, None, None], schedule.noise[times, None, None, None]
    assert torch.allclose(signal * noised - level * velocity, clean, atol=1e-5)


def test_loss_weights_are_small_for_clean_steps_and_positive_for_noisy_ones() -> None:
    weight = NoiseSchedule().weight
    assert weight[999] == pytest.approx(0.15, abs=0.01)
    assert weight[0] < 0.01
    assert 100 < int(weight.argmax()) < 500


def test_every_wording_of_a_scene_states_the_same_attributes() -> None:
    for scene in generator_scenes(range(20), DEVELOPMENT):
        read = [parse(text) for text in caption_variants(scene)]
        assert all(found == scene.attributes() for found in read)
        assert not is_withheld(scene)


def test_images_are_rendered_once_and_reloaded_with_their_masks(tmp_path: Path) -> None:
    rendered = ImageSet(tmp_path, 3, DEVELOPMENT)
    rendered.ensure(1)
    images, masks = rendered.load()
    assert np.array_equal(images[2], render(generator_scenes([2], DEVELOPMENT)[0]))
    assert masks.shape == (3, 64, 64)
    assert masks.max() == 255
    (shard,) = tmp_path.iterdir()
    written = shard.stat().st_mtime_ns
    ImageSet(tmp_path, 3, DEVELOPMENT).ensure(1)
    assert shard.stat().st_mtime_ns == written


def test_images_survive_the_conversion_to_tensors_and_back() -> None:
    images = np.arange(2 * 64 * 64 * 3, dtype=np.uint8).reshape(2, 64, 64, 3)
    assert np.array_equal(to_images(to_tensor(images)), images)


def test_the_interval_of_a_rate_contains_it_and_narrows_with_n() -> None:
    low, high = wilson_interval(0.9, 50)
    assert low < 0.9 < high
    assert wilson_interval(0.9, 500)[0] > low
    assert wilson_interval(1.0, 50)[1] == 1.0
    assert (round(low, 3), round(high, 3)) == (0.786, 0.957)


def test_the_card_shows_every_rate_with_its_n(tmp_path: Path) -> None:
    context = StageContext(out=tmp_path, work=tmp_path)
    write_card(context, tmp_path, {"step": 5, "n": 40, "split": "validation", "agreement": {"colour": 0.5}})
    text = (tmp_path / "README.md").read_text()
    assert "| colour | 0.50 | 0.35 to 0.65 | 40 | - | - |" in text
