"""Operations counted on the meta device, against the published cost model of Stable Diffusion 1.4."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpose_core import torchvision_operators  # noqa: F401
from fakes.tiny_pipeline import tiny_unet

# isort: split
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, UNet2DConditionModel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from counterpose_services.editor.unet.flops import autoencoder_flops, evaluation_flops, preview_flops
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser

SD_1_4_FORWARD = 2 * 402e9
"""402 GMAC for one sample at 64x64 latents, attention included."""
LATENTS, TEXT = (4, 64, 64), (77, 768)


def sd_1_4() -> UNet2DConditionModel:
    with torch.device("meta"):
        return UNet2DConditionModel(
            sample_size=64, block_out_channels=(320, 640, 1280, 1280), cross_attention_dim=768,
            attention_head_dim=8,
        )  # fmt: skip


def test_stable_diffusion_1_4_takes_0_8_tflop_per_sample() -> None:
    counted = evaluation_flops(sd_1_4(), LATENTS, TEXT)
    assert counted.forward == pytest.approx(SD_1_4_FORWARD, rel=0.01)
    # An inner iteration of null-text with frozen weights takes 2.08 forward passes.
    assert (counted.forward + counted.backward) / counted.forward == pytest.approx(2.08, rel=0.01)


def test_the_published_autoencoder_costs_known_multiples_of_an_evaluation() -> None:
    with torch.device("meta"):
        vae = AutoencoderKL(
            block_out_channels=(128, 256, 512, 512), layers_per_block=2,
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
        )  # fmt: skip
    encode, decode = autoencoder_flops(vae, LATENTS, 512)
    assert encode / SD_1_4_FORWARD == pytest.approx(1.39, rel=0.01)
    assert decode / SD_1_4_FORWARD == pytest.approx(3.13, rel=0.01)


def test_the_published_preview_decoder_costs_0_18_of_an_evaluation() -> None:
    with torch.device("meta"):
        preview = AutoencoderTiny()
    assert preview_flops(preview, LATENTS) / SD_1_4_FORWARD == pytest.approx(0.18, abs=0.01)


def measured(work: Callable[[], object]) -> int:
    # torch does not count its fused attention for CPUs.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def test_counted_flops_match_the_loaded_network() -> None:
    unet = tiny_unet()
    counted = evaluation_flops(unet, (4, 8, 8), (6, 16))
    denoiser = UNetDenoiser(unet)
    latents, times, text = torch.zeros(3, 4, 8, 8), torch.full((3,), 500), torch.zeros(3, 6, 16)
    with torch.no_grad():
        assert measured(lambda: denoiser(latents, times, text)) == 3 * counted.forward
    leaf = text.requires_grad_()
    both = measured(lambda: denoiser(latents, times, leaf).sum().backward())
    assert both == pytest.approx(3 * (counted.forward + counted.backward), rel=0.05)


def test_counted_flops_follow_the_input_shape() -> None:
    unet = tiny_unet()
    small, large = (evaluation_flops(unet, (4, side, side), (6, 16)) for side in (8, 16))
    # Four times the positions: convolutions grow in proportion, self-attention with the square.
    assert 4 * small.forward < large.forward < 16 * small.forward
    assert evaluation_flops(unet, (4, 8, 8), (12, 16)).forward > small.forward
