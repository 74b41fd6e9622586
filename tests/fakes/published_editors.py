"""Configurations of published Stable Diffusion checkpoints, written out: their networks without weights."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
from diffusers import UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

from counterpose_core.editing.noise_schedule import PredictionType


@dataclass(frozen=True)
class PublishedEditor:
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
    prediction: PredictionType

    def unet(self) -> UNet2DConditionModel:
        """The denoiser, on the default device."""
        return UNet2DConditionModel(
            sample_size=64,
            block_out_channels=(320, 640, 1280, 1280),
            layers_per_block=2,
            cross_attention_dim=self.text_width,
            attention_head_dim=self.head_dim,
            use_linear_projection=self.linear_projection,
        )

    def text_encoder(self) -> CLIPTextModel:
        """The text encoder, on the default device."""
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


SD_1_4 = PublishedEditor("lance", 768, 12, 12, "quick_gelu", 8, False, 859_520_964, 123_060_480, "epsilon")
SD_2 = PublishedEditor(
    "dataset-interfaces",
    1024,
    23,
    16,
    "gelu",
    (5, 10, 20, 20),
    True,
    865_910_724,
    340_387_840,
    "v_prediction",
)
