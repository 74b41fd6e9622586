"""The suite's preview decoder, compared with its full decoder: close enough to choose by, and far cheaper."""

from __future__ import annotations

from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, AutoencoderTiny

import counterpose_miniature
from counterpose_miniature.training.autoencoder import to_tensor
from counterpose_miniature.training.images import generator_scenes
from counterpose_miniature.training.preview import load_full, load_preview
from counterpose_miniature.training.preview_quality import decode, decoding_gflop, encode, psnr_db
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.seeds import DEVELOPMENT

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
FOLDER = WEIGHTS / "preview"
LEAST_DB = 27.0


@pytest.fixture(scope="module")
def full() -> AutoencoderKL:
    return load_full(WEIGHTS)


@pytest.fixture(scope="module")
def preview() -> AutoencoderTiny:
    return load_preview(WEIGHTS)


@pytest.fixture(scope="module")
def latents(full: AutoencoderKL) -> torch.Tensor:
    scenes = generator_scenes(range(700, 748), DEVELOPMENT)
    return encode(full, to_tensor(np.stack([render(scene) for scene in scenes])))


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_previews_resemble_full_images_even_off_the_encoder_s_latents(
    noise: float, preview: AutoencoderTiny, full: AutoencoderKL, latents: torch.Tensor
) -> None:
    shaken = latents + noise * torch.randn(latents.shape, generator=torch.Generator().manual_seed(0))
    found = psnr_db(decode(preview, shaken), decode(full, shaken))
    assert found.mean() > LEAST_DB
    # No image is another's: each preview is nearest to its own.
    made, wanted = decode(preview, shaken).flatten(1), decode(full, shaken).flatten(1)
    assert torch.cdist(made, wanted).argmin(dim=1).tolist() == list(range(len(shaken)))


def test_a_preview_costs_a_tenth_of_the_full_image(preview: AutoencoderTiny, full: AutoencoderKL) -> None:
    assert 0.0 < decoding_gflop(preview) < 0.1 * decoding_gflop(full)


def test_previews_and_full_images_are_decoded_from_the_same_latents(
    preview: AutoencoderTiny, full: AutoencoderKL
) -> None:
    assert preview.config.scaling_factor == full.config.scaling_factor == 1.0
    assert not preview.config.shift_factor


def test_the_preview_card_states_its_cost_and_its_weights_are_small(preview: AutoencoderTiny) -> None:
    assert f"{decoding_gflop(preview):.3f} GFLOP" in (FOLDER / "README.md").read_text()
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_000_000
