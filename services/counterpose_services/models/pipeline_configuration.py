"""Whether the editor can work with a pipeline, told from its configuration files before anything loads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from counterpose_core.errors import ModelFormatRefused

PARTS = ("vae", "unet", "text_encoder")
SECOND_PARTS = ("text_encoder_2",)
"""What Stable Diffusion XL has in addition."""
SECOND_TOKENIZER = "tokenizer_2"
_SCHEDULER = "scheduler/scheduler_config.json"
_VOCABULARIES = ("tokenizer.json", "vocab.*")
_SDXL = "text_time"
_Config = Mapping[str, Any]


def pipeline_parts(folder: Path) -> tuple[str, ...]:
    """Return the folders of a pipeline's networks."""
    return (*PARTS, *SECOND_PARTS) if is_sdxl(folder) else PARTS


def missing_file(folder: Path) -> str | None:
    """Return the first file that a pipeline lacks beside its networks: of the scheduler or of a tokenizer."""
    if not (folder / _SCHEDULER).is_file():
        return _SCHEDULER
    for part in ("tokenizer", SECOND_TOKENIZER) if is_sdxl(folder) else ("tokenizer",):
        if not any(any((folder / part).glob(kind)) for kind in _VOCABULARIES):
            return f"{part}/{_VOCABULARIES[0]}"
    return None


def is_sdxl(folder: Path) -> bool:
    """Return True if the UNet takes a pooled embedding and sizes, as Stable Diffusion XL's does."""
    return read_configuration(folder / "unet" / "config.json").get("addition_embed_type") == _SDXL


def is_null_zero(folder: Path) -> bool:
    """Return True if zeros stand for the empty prompt, as the model was trained."""
    return bool(read_configuration(folder / "model_index.json").get("force_zeros_for_empty_prompt", False))


def require_editable(folder: Path, name: str) -> None:
    """Refuse a pipeline whose networks take or give something that the editor does not know.

    Raises:
        ModelFormatRefused: the message names the first such thing.
    """
    index = read_configuration(folder / "model_index.json")
    unet, vae = (read_configuration(folder / part / "config.json") for part in ("unet", "vae"))
    if (folder / "transformer").is_dir() and not unet:
        raise _refusal(name, "denoises by a transformer")
    for applies, what in _UNKNOWN_TO_THE_EDITOR:
        if applies(index, unet, vae):
            raise _refusal(name, what)
    if unet.get("addition_embed_type") == _SDXL and not (folder / SECOND_TOKENIZER).is_dir():
        raise ModelFormatRefused(f"the pipeline {name!r} has no folder {SECOND_TOKENIZER}; add it")


def _refusal(name: str, what: str) -> ModelFormatRefused:
    return ModelFormatRefused(
        f"the pipeline {name!r} {what}, which the editor does not support; "
        "use Stable Diffusion 1, 2 or XL (base), or their inpainting checkpoints"
    )


def _is_refiner(index: _Config, unet: _Config, vae: _Config) -> bool:
    return bool(index.get("requires_aesthetics_score", False))


def _takes_more_channels(index: _Config, unet: _Config, vae: _Config) -> bool:
    latents = vae.get("latent_channels", 4)
    # Those of inpainting checkpoints: the mask, and the latents of what stays.
    return bool(unet.get("in_channels", latents) not in (latents, 2 * latents + 1))


def _gives_more_channels(index: _Config, unet: _Config, vae: _Config) -> bool:
    latents = vae.get("latent_channels", 4)
    return bool(unet.get("out_channels", latents) != latents)


def _adds_other_conditions(index: _Config, unet: _Config, vae: _Config) -> bool:
    return unet.get("addition_embed_type") not in (None, _SDXL)


def _embeds_classes(index: _Config, unet: _Config, vae: _Config) -> bool:
    return bool(unet.get("class_embed_type") or unet.get("num_class_embeds"))


def _projects_the_text(index: _Config, unet: _Config, vae: _Config) -> bool:
    return bool(unet.get("encoder_hid_dim_type") or unet.get("encoder_hid_dim"))


def _shifts_latents(index: _Config, unet: _Config, vae: _Config) -> bool:
    return any(vae.get(each) is not None for each in ("latents_mean", "latents_std", "shift_factor"))


_UNKNOWN_TO_THE_EDITOR: tuple[tuple[Callable[[_Config, _Config, _Config], bool], str], ...] = (
    (_is_refiner, "is the refiner of Stable Diffusion XL, with an aesthetic score"),
    (_takes_more_channels, "has a UNet that takes more than the latents, as for edits by an instruction"),
    (_gives_more_channels, "has a UNet that gives more than the latents, such as their variance"),
    (_adds_other_conditions, "has a UNet that takes other conditions beside the text"),
    (_embeds_classes, "has a UNet that takes classes or noise levels"),
    (_projects_the_text, "has a UNet that projects what the text encoder returns"),
    (_shifts_latents, "has an autoencoder whose latents are shifted, not only scaled"),
)


def read_configuration(file: Path) -> _Config:
    """Return a configuration, empty if there is none: the library that loads it says what is missing.

    Raises:
        ModelFormatRefused: it is not JSON.
    """
    if not file.is_file():
        return {}
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFormatRefused(
            f"{file.parent.name}/{file.name} of a pipeline is not readable JSON; download it again"
        ) from error
    return read if isinstance(read, dict) else {}
