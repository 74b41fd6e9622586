"""A rehearsal of the preview decoder's training on the suite's generator: its data and its results."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file

import counterpose_miniature
from counterpose_miniature.training import preview
from counterpose_miniature.training.autoencoder import to_images, to_tensor
from counterpose_miniature.training.images import ImageSet
from counterpose_miniature.training.preview import prepared, shaken_latents
from counterpose_miniature.training.preview_quality import decode, decoding_gflop, encode, psnr_db
from counterpose_miniature.training.stage import StageContext, figures_of
from counterpose_miniature.world.seeds import DEVELOPMENT

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"


@pytest.fixture(scope="module")
def full() -> AutoencoderKL:
    return preview.load_full(WEIGHTS)


def rehearsal(folder: Path) -> StageContext:
    (folder / "out").mkdir()
    (folder / "out" / "editor").symlink_to(WEIGHTS / "editor")
    return StageContext(folder / "out", folder / "work", smoke=True, threads=1)


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> StageContext:
    context = rehearsal(tmp_path_factory.mktemp("rehearsed"))
    preview.train(context)
    return context


def test_a_rehearsal_lowers_the_loss(rehearsed: StageContext) -> None:
    log = (rehearsed.work / "preview" / "log.txt").read_text()
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)", log)]
    assert len(losses) == 2
    assert losses[1] < 0.8 * losses[0]


def test_a_rehearsal_s_preview_loads_and_has_a_tiny_encoder(rehearsed: StageContext) -> None:
    folder = rehearsed.out / "preview"
    weights = load_file(folder / "diffusion_pytorch_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert sum(tensor.numel() for name, tensor in weights.items() if name.startswith("encoder.")) < 300
    model = preview.load_preview(rehearsed.out)
    assert decode(model, torch.zeros(2, 4, 16, 16)).shape == (2, 3, 64, 64)
    assert "block_out_channels" not in json.loads((folder / "config.json").read_text())


def test_the_rehearsal_s_card_has_figures_with_n_and_both_costs(rehearsed: StageContext) -> None:
    figures = figures_of(rehearsed, "preview")
    assert figures is not None
    assert {found["n"] for found in figures.values()} == {2, 4}
    card = (rehearsed.out / "preview" / "README.md").read_text()
    assert "| preview against full decoder, encoded images |" in card
    assert "1.567 in the full decoder" in card


def test_a_finished_preview_is_not_trained_again(rehearsed: StageContext) -> None:
    file = rehearsed.out / "preview" / "diffusion_pytorch_model.safetensors"
    written = file.stat().st_mtime_ns
    preview.train(rehearsed)
    assert file.stat().st_mtime_ns == written


def test_training_images_come_from_the_full_decoder_and_are_made_once(
    tmp_path: Path, full: AutoencoderKL
) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    first = prepared(context, "preview", full, 12)
    wanted = decode(full, first.latents.float())
    assert psnr_db(to_tensor(first.images), wanted).min() > 45.0
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "preview").iterdir()}
    again = prepared(context, "preview", full, 12)
    assert torch.equal(first.latents, again.latents)
    assert np.array_equal(first.images, again.images)
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_training_images_use_training_seeds(tmp_path: Path, full: AutoencoderKL) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    prepared(context, "preview", full, 2)
    assert [path.name for path in (tmp_path / "work" / "images").iterdir()] == ["training-0-2.npy"]


def test_about_half_of_the_latents_are_perturbed_slightly(tmp_path: Path, full: AutoencoderKL) -> None:
    held_out = ImageSet(tmp_path, 40, DEVELOPMENT)
    held_out.ensure(1)
    images = held_out.load()[0]
    drawn = shaken_latents(full, images, torch.Generator().manual_seed(0))
    moved = (drawn - encode(full, to_tensor(images))).square().mean(dim=(1, 2, 3)).sqrt()
    # The posterior's own deviation is about .02.
    assert 10 <= int((moved > 0.04).sum()) <= 30
    assert 0.1 < float(moved.max()) < 0.35
    same = shaken_latents(full, images, torch.Generator().manual_seed(0))
    assert torch.allclose(drawn, same, atol=1e-5)


def test_the_loss_is_the_absolute_plus_the_squared_error() -> None:
    wanted = torch.zeros(2, 3, 4, 4)
    assert float(preview.image_loss(wanted + 0.5, wanted)) == pytest.approx(0.75)
    assert float(preview.image_loss(wanted, wanted)) == 0.0


def test_psnr_is_computed_per_image() -> None:
    wanted = torch.zeros(2, 3, 4, 4)
    made = wanted + torch.tensor([0.2, 0.02])[:, None, None, None]
    assert psnr_db(made, wanted) == pytest.approx([20.0, 40.0])


def test_counting_flops_keeps_the_model_on_its_device(full: AutoencoderKL) -> None:
    assert decoding_gflop(full) == pytest.approx(1.567, abs=0.001)
    assert {parameter.device.type for parameter in full.parameters()} == {"cpu"}


def test_displayed_images_are_clipped_to_their_range(full: AutoencoderKL) -> None:
    shown = decode(full, 4 * torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert float(shown.abs().max()) == 1.0
    assert to_images(shown).max() == 255
