from dataclasses import dataclass

import pytest

from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

from faultline_core.suite import load_suite
from faultline_services.editor.attention_processors import attention_sites
from faultline_services.editor.unet_denoiser import UNetDenoiser


@dataclass(frozen=True)
class Published:
    """The configuration files of a published checkpoint, written out."""

    suite: str
    text_width: int
    text_layers: int
    text_heads: int
    activation: str
    head_dim: int | tuple[int, ...]
    linear_projection: bool
    unet_parameters: int
    text_parameters: int

    def unet(self) -> UNet2DConditionModel:
        return UNet2DConditionModel(
            sample_size=64,
            block_out_channels=(320, 640, 1280, 1280),
            layers_per_block=2,
            cross_attention_dim=self.text_width,
            attention_head_dim=self.head_dim,
            use_linear_projection=self.linear_projection,
        )

    def text_encoder(self) -> CLIPTextModel:
        return CLIPTextModel(
            CLIPTextConfig(
                vocab_size=49408,
                hidden_size=self.text_width,
                intermediate_size=4 * self.text_width,
                num_hidden_layers=self.text_layers,
                num_attention_heads=self.text_heads,
                hidden_act=self.activation,
                max_position_embeddings=77,
            )
        )


SD_1_4 = Published("lance", 768, 12, 12, "quick_gelu", 8, False, 859_520_964, 123_060_480)
SD_2 = Published("dataset-interfaces", 1024, 23, 16, "gelu", (5, 10, 20, 20), True, 865_910_724, 340_387_840)
BOTH = pytest.mark.parametrize("published", [SD_1_4, SD_2], ids=lambda published: published.suite)


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@BOTH
def test_every_attention_layer_of_the_published_unet_is_hooked(published: Published) -> None:
    with torch.device("meta"):
        unet = published.unet()
    assert parameters(unet) == published.unet_parameters
    sites = attention_sites(unet)
    assert [sum(site.is_cross is cross for site in sites) for cross in (False, True)] == [16, 16]
    side = load_suite(published.suite).editor.resolution // 8
    with torch.device("meta"):
        latents, text = torch.empty(3, 4, side, side), torch.empty(3, 77, published.text_width)
        output = UNetDenoiser(unet)(latents, torch.empty(3, dtype=torch.int64), text)
    assert output.shape == latents.shape


@BOTH
def test_the_published_text_encoder_reads_77_tokens_at_its_width(published: Published) -> None:
    with torch.device("meta"):
        encoder = published.text_encoder()
        embedded = encoder(torch.zeros(2, 77, dtype=torch.int64))[0]
    assert parameters(encoder) == published.text_parameters
    assert embedded.shape == (2, 77, published.text_width)


def test_the_published_autoencoder_shrinks_a_side_eightfold() -> None:
    with torch.device("meta"):
        vae = AutoencoderKL(
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
        )
        latents = vae.encode(torch.empty(1, 3, 512, 512)).latent_dist.mean
    assert parameters(vae) == 83_653_863
    assert latents.shape == (1, 4, 64, 64)
    assert vae.config.scaling_factor == pytest.approx(0.18215)
