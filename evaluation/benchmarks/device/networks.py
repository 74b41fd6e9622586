"""Published UNets and autoencoders, built from their shapes with random weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from faultline_core.editing.noise_schedule import NoiseSchedule, PredictionType
from faultline_services.editor.unet.unet_denoiser import UNetDenoiser

Model = Literal["sd14", "sd21", "sdxl"]

ARCHITECTURES = Path(__file__).with_name("architectures")
SHRUNK, SMALL_SIDE = 8, 8
"""Where only the code is tried: the divisor of channels, and the latents' positions a side."""


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
        parts["unet"] |= {"sample_size": SMALL_SIDE, "cross_attention_dim": 32}
        if "transformer_layers_per_block" in parts["unet"]:
            parts["unet"]["transformer_layers_per_block"] = [1] * len(parts["unet"]["block_out_channels"])
        return Architecture.model_validate(parts | {"latent_side": SMALL_SIDE, "text_length": 7})

    def build_unet(self) -> Any:
        """Build the UNet where torch's defaults say: type, device."""
        kind = PooledUNet if self.unet.get("addition_embed_type") else UNet2DConditionModel
        return kind.from_config(self.unet).eval()


class PooledUNet(UNet2DConditionModel):  # type: ignore[misc]  # diffusers is not followed by mypy
    """SDXL's, which also needs a pooled text embedding and image sizes; both are zeros here."""

    def forward(
        self,
        sample: Tensor,
        timestep: Tensor,
        text: Tensor,
        timestep_cond: Tensor | None = None,
        return_dict: bool = True,
    ) -> Any:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L, D)."""
        rows = sample.shape[0]
        sizes = 6 * self.config.addition_time_embed_dim
        pooled = self.config.projection_class_embeddings_input_dim - sizes
        added = {"text_embeds": sample.new_zeros(rows, pooled), "time_ids": sample.new_zeros(rows, 6)}
        return super().forward(
            sample,
            timestep,
            text,
            timestep_cond=timestep_cond,
            added_cond_kwargs=added,
            return_dict=return_dict,
        )


@dataclass(frozen=True)
class Networks:
    """What the measurements run on, and what one evaluation costs in operations."""

    denoiser: UNetDenoiser
    vae: Any
    schedule: NoiseSchedule
    latent_shape: tuple[int, int, int]
    text_shape: tuple[int, int]
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
    side = architecture.latent_side
    return Networks(
        denoiser=UNetDenoiser(unet),
        vae=vae,
        schedule=NoiseSchedule(prediction=architecture.prediction),
        latent_shape=(architecture.unet["in_channels"], side, side),
        text_shape=(architecture.text_length, architecture.unet["cross_attention_dim"]),
        evaluation_flops=evaluation_flops(architecture),
        device=device,
    )


@torch.no_grad()
def evaluation_flops(architecture: Architecture) -> int:
    """Operations of one evaluation of one sample, counted on the meta device."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        unet, side = architecture.build_unet(), architecture.latent_side
        latents = torch.empty(1, architecture.unet["in_channels"], side, side)
        text = torch.empty(1, architecture.text_length, architecture.unet["cross_attention_dim"])
        unet(latents, torch.empty(1, dtype=torch.int64), text)
    return int(counter.get_total_flops())
