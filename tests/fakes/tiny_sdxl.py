"""A pipeline folder of Stable Diffusion XL's layout with small random weights, written by diffusers."""

from __future__ import annotations

import copy
from pathlib import Path

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from counterpose_miniature.training.tokenizer import MAX_LENGTH, build_tokenizer
from fakes.tiny_pipeline import SUITE, WORDS

SDXL = SUITE.model_copy(update={"model": "tiny-xl"})
WIDTHS, POOLED, TIME = (16, 24), 12, 4
"""Widths of both text encoders, of the pooled embedding, and of each embedded size."""


def write_tiny_sdxl(folder: Path) -> None:
    """Save the pipeline; its second tokenizer pads with another token, as the published one does."""
    torch.manual_seed(3)
    tokenizer = build_tokenizer(WORDS)
    second = copy.deepcopy(tokenizer)
    second.pad_token = "<mask>"
    configs = [
        CLIPTextConfig(
            vocab_size=len(tokenizer), hidden_size=width, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=MAX_LENGTH, projection_dim=POOLED,
            bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        for width in WIDTHS
    ]  # fmt: skip
    StableDiffusionXLPipeline(
        vae=AutoencoderKL(
            block_out_channels=(8, 8), layers_per_block=1, norm_num_groups=4,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
            scaling_factor=0.13025, force_upcast=True,
        ),
        text_encoder=CLIPTextModel(configs[0]),
        text_encoder_2=CLIPTextModelWithProjection(configs[1]),
        tokenizer=tokenizer,
        tokenizer_2=second,
        unet=tiny_sdxl_unet(),
        scheduler=EulerDiscreteScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1,
            timestep_spacing="leading",
        ),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    ).save_pretrained(folder)  # fmt: skip


def tiny_sdxl_unet(seed: int = 0) -> UNet2DConditionModel:
    """Return a UNet of SDXL's blocks: none with attention at the finest level, several layers a block."""
    torch.manual_seed(seed)
    return UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        cross_attention_dim=sum(WIDTHS), attention_head_dim=(1, 2), transformer_layers_per_block=(1, 2),
        use_linear_projection=True, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), addition_embed_type="text_time",
        addition_time_embed_dim=TIME, projection_class_embeddings_input_dim=POOLED + 6 * TIME,
    )  # fmt: skip
