"""Published UNets and autoencoders, built from their shapes with random weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from counterpose_services.editor.unet.added_conditions import SIZES, AddedConditions
from counterpose_services.editor.unet.flops import evaluation_flops
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser

Model = Literal["sd14", "sd21", "sdxl"]

ARCHITECTURES = Path(__file__).with_name("architectures")
SHRUNK, SMALL_SIDE, SMALL_WIDTH = 8, 8, 32
"""Where only the code is tried: the divisor of channels, the latents' positions a side, the text's width."""


class Architecture(BaseModel):
    """Shapes of a published model: of SD 1.4 (and 1.5), SD 2.1 at 768 pixels, SDXL at 1024."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    latent_side: int
    text_length: int
    prediction: PredictionType
    unet: dict[str, Any]
    vae: dict[str, Any]

    @classmethod
    def read(cls, model: Model) -> Architecture:
        """Return the shapes of a model by its name."""
        return cls.model_validate_json((ARCHITECTURES / f"{model}.json").read_text(encoding="utf-8"))

    def small(self) -> Architecture:
        """Return the same blocks with one layer each, few channels and small latents."""
        parts = json.loads(self.model_dump_json())
        for part in (parts["unet"], parts["vae"]):
            part["block_out_channels"] = [width // SHRUNK for width in part["block_out_channels"]]
            part["norm_num_groups"] //= SHRUNK
            part["layers_per_block"] = 1
        parts["unet"] |= {"sample_size": SMALL_SIDE, "cross_attention_dim": SMALL_WIDTH}
        if "addition_embed_type" in parts["unet"]:
            sizes = SIZES * parts["unet"]["addition_time_embed_dim"]
            parts["unet"]["projection_class_embeddings_input_dim"] = SMALL_WIDTH + sizes
        if "transformer_layers_per_block" in parts["unet"]:
            parts["unet"]["transformer_layers_per_block"] = [1] * len(parts["unet"]["block_out_channels"])
        return Architecture.model_validate(parts | {"latent_side": SMALL_SIDE, "text_length": 7})

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image's latents."""
        return self.unet["in_channels"], self.latent_side, self.latent_side

    @property
    def text_shape(self) -> tuple[int, int]:
        """Rows and width of one embedded prompt; SDXL's has a row more than tokens, the pooled embedding."""
        pooled = AddedConditions.of(self.unet, side=0) is not None
        return self.text_length + pooled, self.unet["cross_attention_dim"]

    @property
    def evaluation_flops(self) -> int:
        """Operations of one evaluation of one sample, counted on the meta device."""
        with torch.device("meta"):
            return evaluation_flops(self.build_unet(), self.latent_shape, self.text_shape).forward

    def build_unet(self) -> Any:
        """Build the UNet where torch's defaults say: type, device."""
        return UNet2DConditionModel.from_config(self.unet).eval()

    def build_reference_unet(self) -> Any:
        """Build it for the plain reference, which passes a text on as it is."""
        kind = PooledUNet if self.unet.get("addition_embed_type") else UNet2DConditionModel
        return kind.from_config(self.unet).eval()


class PooledUNet(UNet2DConditionModel):  # type: ignore[misc]  # diffusers is not followed by mypy
    """SDXL's, which takes the pooled embedding out of the last row of the text."""

    def forward(self, sample: Tensor, timestep: Tensor, text: Tensor) -> Any:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L + 1, D)."""
        conditions = AddedConditions.of(self.config, side=8 * sample.shape[-1])
        assert conditions is not None
        words, added = conditions.split(text)
        return super().forward(sample, timestep, words, added_cond_kwargs=added)


@dataclass(frozen=True)
class Networks:
    """What the measurements run on, and what one evaluation costs in operations."""

    denoiser: UNetDenoiser
    vae: Any
    schedule: NoiseSchedule
    latent_shape: tuple[int, int, int]
    text_shape: tuple[int, int]
    tokens: int
    evaluation_flops: int
    device: torch.device

    def noise(self, rows: int, seed: int = 0) -> Tensor:
        """Draw latents (rows, C, H, W) in float32."""
        return self._drawn((rows, *self.latent_shape), seed)

    def text(self, rows: int, seed: int = 1) -> Tensor:
        """Draw embeddings (rows, L, D) in float32."""
        return self._drawn((rows, *self.text_shape), seed)

    def _drawn(self, shape: tuple[int, ...], seed: int) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(self.device)


def build(architecture: Architecture, device: torch.device, dtype: torch.dtype) -> Networks:
    """Build both networks on the device, weights random from a fixed seed."""
    with torch.random.fork_rng(devices=[]), device:
        torch.manual_seed(0)
        unet = architecture.build_unet().to(dtype=dtype, memory_format=torch.channels_last)
        vae = AutoencoderKL.from_config(architecture.vae).to(dtype).eval().requires_grad_(requires_grad=False)
    return Networks(
        denoiser=UNetDenoiser(unet),
        vae=vae,
        schedule=NoiseSchedule(prediction=architecture.prediction),
        latent_shape=architecture.latent_shape,
        text_shape=architecture.text_shape,
        tokens=architecture.text_length,
        evaluation_flops=architecture.evaluation_flops,
        device=device,
    )
