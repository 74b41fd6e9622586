"""The generator's networks: text encoder, denoiser, noise schedule, and their diffusers pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast

from counterpose_miniature.training.tokenizer import MAX_LENGTH, build_tokenizer
from counterpose_miniature.world.grammar import words


@dataclass(frozen=True)
class Widths:
    """Channels of the denoiser's three levels (16, 8 and 4 latents a side) and of the text encoder."""

    # The first run's 32/96/192 took 0.57 s per step of 64 images; 64/128/192 with fused attention took 1.8 s.
    levels: tuple[int, int, int] = (48, 96, 160)
    text: int = 128
    text_layers: int = 2


def build_denoiser(widths: Widths) -> UNet2DConditionModel:
    """Return an untrained denoiser with cross-attention at 16x16, 8x8 and the middle."""
    crossed, plain = "CrossAttnDownBlock2D", "DownBlock2D"
    # Cross-attention where edits use the maps, mainly at 16x16; at 4x4 only in the middle.
    denoiser = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=widths.levels,
        down_block_types=(crossed, crossed, plain),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=widths.text,
        attention_head_dim=2,
        norm_num_groups=8,
    )
    # Plain products and softmax, because the backward pass of the fused CPU kernel takes 29 % of a step.
    denoiser.set_attn_processor(AttnProcessor())
    return denoiser.to(memory_format=torch.channels_last)


def build_text_encoder(widths: Widths, tokenizer: PreTrainedTokenizerFast) -> CLIPTextModel:
    """Return an untrained CLIP text encoder over the tokenizer's vocabulary."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=widths.text,
        intermediate_size=4 * widths.text,
        num_hidden_layers=widths.text_layers,
        num_attention_heads=4,
        max_position_embeddings=MAX_LENGTH,
        projection_dim=widths.text,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        attn_implementation="eager",
    )
    return CLIPTextModel(config)


def build_schedule() -> DDIMScheduler:
    """Return Stable Diffusion's noise schedule with v-prediction."""
    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )


def save_pipeline(
    folder: Path, autoencoder: AutoencoderKL, denoiser: UNet2DConditionModel, text_encoder: CLIPTextModel
) -> None:
    """Save everything as a StableDiffusionPipeline folder in half precision; the modules stay as they are."""
    encoder = CLIPTextModel(text_encoder.config)
    halves = [_half_of(text_encoder, encoder)]
    for module in (autoencoder, denoiser):
        # Underscored entries contain the path that a module was loaded from.
        config = {name: value for name, value in module.config.items() if not name.startswith("_")}
        halves.append(_half_of(module, type(module).from_config(config)))
    pipeline = StableDiffusionPipeline(
        text_encoder=halves[0],
        vae=halves[1],
        unet=halves[2],
        tokenizer=build_tokenizer(words()),
        scheduler=build_schedule(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder, safe_serialization=True)


def _half_of(module: nn.Module, twin: nn.Module) -> nn.Module:
    twin.load_state_dict(module.state_dict())
    return twin.half().eval()
