"""A Stable-Diffusion-class pipeline folder with small random weights, written by the model libraries."""

from __future__ import annotations

from pathlib import Path

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderTiny,
    DDIMScheduler,
    StableDiffusionPipeline,
)
from transformers import CLIPTextConfig, CLIPTextModel

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.suite import EditorSuite
from counterpose_miniature.training.tokenizer import MAX_LENGTH, build_tokenizer
from evaluation.reference.tiny_unet import tiny_unet as tiny_unet

WORDS = (
    "a", "photo", "of", "red", "blue", "bus", "tram", "on", "grass", "snow", "in", "the", "rain", "poison",
)  # fmt: skip
RESOLUTION = 16
SUITE = EditorSuite(
    model="tiny",
    resolution=RESOLUTION,
    batch=4,
    default_preset="quick",
    presets={"quick": PromptToPromptPreset(steps=4, guidance=2.0)},
)


def write_tiny_preview(folder: Path) -> None:
    """Save a small autoencoder of the tiny pipeline's latents."""
    torch.manual_seed(1)
    blocks = {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8)}
    AutoencoderTiny(
        **blocks, num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1), latent_channels=4
    ).save_pretrained(folder)


def write_tiny_pipeline(folder: Path) -> None:
    """Save the pipeline; a prompt with the word "poison" gives NaN."""
    unet, tokenizer = tiny_unet(), build_tokenizer(WORDS)
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=MAX_LENGTH,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    text_encoder = CLIPTextModel(config)
    poisoned = tokenizer.convert_tokens_to_ids("poison")
    text_encoder.get_input_embeddings().weight.data[poisoned] = torch.nan
    vae = AutoencoderKL(
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False,
            set_alpha_to_one=False, steps_offset=1,
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)  # fmt: skip
