"""The preview decoder's training in rehearsal on the suite's own generator: its lessons, what it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path

# Before anything that imports torchvision.
from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file

import faultline_miniature
from faultline_miniature.training import preview
from faultline_miniature.training.autoencoder import to_pictures, to_tensor
from faultline_miniature.training.pictures import PictureSet
from faultline_miniature.training.preview_lessons import prepared, shaken_latents
from faultline_miniature.training.preview_quality import decode, decoding_gflop, encode, psnr_db
from faultline_miniature.training.stage import StageContext, figures_of
from faultline_miniature.world.seeds import DEVELOPMENT

WEIGHTS = Path(faultline_miniature.__file__).parent / "suite" / "weights"


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


def test_what_a_rehearsal_saved_is_loaded_and_its_encoder_is_next_to_nothing(rehearsed: StageContext) -> None:
    folder = rehearsed.out / "preview"
    weights = load_file(folder / "diffusion_pytorch_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert sum(tensor.numel() for name, tensor in weights.items() if name.startswith("encoder.")) < 300
    model = preview.load_preview(rehearsed.out)
    assert decode(model, torch.zeros(2, 4, 16, 16)).shape == (2, 3, 64, 64)
    assert "block_out_channels" not in json.loads((folder / "config.json").read_text())


def test_the_card_of_a_rehearsal_tells_figures_with_their_n_and_both_costs(rehearsed: StageContext) -> None:
    figures = figures_of(rehearsed, "preview")
    assert figures is not None
    assert {found["n"] for found in figures.values()} == {2, 4}
    card = (rehearsed.out / "preview" / "README.md").read_text()
    assert "| preview against full decoder, encoded pictures |" in card
    assert "1.567 in the full decoder" in card


def test_a_finished_preview_is_not_trained_again(rehearsed: StageContext) -> None:
    file = rehearsed.out / "preview" / "diffusion_pytorch_model.safetensors"
    written = file.stat().st_mtime_ns
    preview.train(rehearsed)
    assert file.stat().st_mtime_ns == written


def test_lessons_are_the_full_decoder_s_pictures_and_are_made_once(
    tmp_path: Path, full: AutoencoderKL
) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    first = prepared(context, "preview", full, 12)
    wanted = decode(full, first.latents.float())
    assert psnr_db(to_tensor(first.pictures), wanted).min() > 45.0
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "preview").iterdir()}
    again = prepared(context, "preview", full, 12)
    assert torch.equal(first.latents, again.latents)
    assert np.array_equal(first.pictures, again.pictures)
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_lessons_come_from_training_seeds(tmp_path: Path, full: AutoencoderKL) -> None:
    context = StageContext(tmp_path / "out", tmp_path / "work", smoke=True, threads=1)
    prepared(context, "preview", full, 2)
    assert [path.name for path in (tmp_path / "work" / "pictures").iterdir()] == ["training-0-2.npy"]


def test_about_half_of_the_latents_are_shaken_and_none_far(tmp_path: Path, full: AutoencoderKL) -> None:
    held_out = PictureSet(tmp_path, 40, DEVELOPMENT)
    held_out.ensure(1)
    images = held_out.load()[0]
    drawn = shaken_latents(full, images, torch.Generator().manual_seed(0))
    moved = (drawn - encode(full, to_tensor(images))).square().mean(dim=(1, 2, 3)).sqrt()
    # The posterior's own deviation is some .02.
    assert 10 <= int((moved > 0.04).sum()) <= 30
    assert 0.1 < float(moved.max()) < 0.35
    same = shaken_latents(full, images, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, same)


def test_the_loss_is_absolute_plus_squared_error() -> None:
    wanted = torch.zeros(2, 3, 4, 4)
    assert float(preview.picture_loss(wanted + 0.5, wanted)) == pytest.approx(0.75)
    assert float(preview.picture_loss(wanted, wanted)) == 0.0


def test_psnr_is_each_picture_s_own() -> None:
    wanted = torch.zeros(2, 3, 4, 4)
    made = wanted + torch.tensor([0.2, 0.02])[:, None, None, None]
    assert psnr_db(made, wanted) == pytest.approx([20.0, 40.0])


def test_counting_leaves_the_model_where_it_is(full: AutoencoderKL) -> None:
    assert decoding_gflop(full) == pytest.approx(1.567, abs=0.001)
    assert {parameter.device.type for parameter in full.parameters()} == {"cpu"}


def test_pictures_are_shown_within_their_range(full: AutoencoderKL) -> None:
    shown = decode(full, 4 * torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert float(shown.abs().max()) == 1.0
    assert to_pictures(shown).max() == 255
