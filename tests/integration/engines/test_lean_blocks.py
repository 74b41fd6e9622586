"""Lean blocks compute what diffusers' blocks compute, and gradients too."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.models.activations import GEGLU
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor, nn

from counterpose_services.editor.unet.lean_blocks import LeanGEGLU, LeanResnetBlock, make_lean


def unet(**changes: Any) -> UNet2DConditionModel:
    """A small network with random weights."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "sample_size": 8,
        "block_out_channels": (16, 32),
        "layers_per_block": 1,
        "cross_attention_dim": 12,
        "attention_head_dim": 2,
        "norm_num_groups": 4,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    return UNet2DConditionModel(**options | changes).eval().requires_grad_(requires_grad=False)


def count(network: nn.Module, kind: type[nn.Module]) -> int:
    """How many blocks of a kind a network has."""
    return sum(type(part) is kind for part in network.modules())


def evaluated(network: UNet2DConditionModel, text: Tensor) -> Tensor:
    """Evaluate at three timesteps."""
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(3, 4, 8, 8, generator=generator)
    output: Tensor = network(latents, torch.tensor([1, 500, 999]), text, return_dict=False)[0]
    return output


@pytest.fixture
def text() -> Tensor:
    return torch.randn(3, 5, 12, generator=torch.Generator().manual_seed(2))


def test_every_plain_block_becomes_lean_and_keeps_its_results(text: Tensor) -> None:
    plain = unet()
    lean = copy.deepcopy(plain)
    blocks, gates = count(plain, ResnetBlock2D), count(plain, GEGLU)
    assert blocks > 0
    assert gates > 0
    make_lean(lean)
    assert (count(lean, LeanResnetBlock), count(lean, LeanGEGLU)) == (blocks, gates)
    assert count(lean, ResnetBlock2D) == count(lean, GEGLU) == 0
    with torch.no_grad():
        assert torch.allclose(evaluated(lean, text), evaluated(plain, text), atol=1e-5)


def test_inputs_of_a_call_are_left_as_they_were(text: Tensor) -> None:
    lean = unet()
    make_lean(lean)
    before = text.clone()
    with torch.no_grad():
        first, second = evaluated(lean, text), evaluated(lean, text)
    assert torch.equal(text, before)
    assert torch.allclose(first, second, atol=1e-6)


def test_gradients_in_the_text_are_those_of_plain_blocks(text: Tensor) -> None:
    plain = unet()
    lean = copy.deepcopy(plain)
    make_lean(lean)
    slopes = []
    for network in (plain, lean):
        leaf = text.clone().requires_grad_()
        (slope,) = torch.autograd.grad(evaluated(network, leaf).square().sum(), leaf)
        slopes.append(slope)
    assert torch.allclose(slopes[0], slopes[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", [{"resnet_time_scale_shift": "scale_shift"}, {"act_fn": "gelu"}])
def test_blocks_of_another_kind_stay(changes: dict[str, Any], text: Tensor) -> None:
    plain = unet(**changes)
    lean = copy.deepcopy(plain)
    make_lean(lean)
    assert count(lean, ResnetBlock2D) > 0
    with torch.no_grad():
        assert torch.allclose(evaluated(lean, text), evaluated(plain, text), atol=1e-5)


def test_an_autoencoder_keeps_its_results() -> None:
    torch.manual_seed(0)
    plain = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    plain = plain.eval().requires_grad_(requires_grad=False)
    lean = copy.deepcopy(plain)
    make_lean(lean)
    assert count(lean, ResnetBlock2D) == 0
    images, latents = torch.randn(2, 3, 16, 16), torch.randn(2, 4, 8, 8)
    with torch.no_grad():
        assert torch.allclose(
            lean.encode(images).latent_dist.mean, plain.encode(images).latent_dist.mean, atol=1e-5
        )
        assert torch.allclose(lean.decode(latents).sample, plain.decode(latents).sample, atol=1e-5)
