"""Folders with the layout of published repositories, written with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import DDIMScheduler, EulerDiscreteScheduler, PNDMScheduler
from torch import Generator, nn
from transformers import BlipImageProcessor

from counterpose_core.text.imagenet_hierarchy import class_names
from evaluation.benchmarks.device.networks import Model
from evaluation.rehearsal import architectures
from evaluation.rehearsal.architectures import Published, Size
from evaluation.rehearsal.random_weights import Spec, specs_of, write_network
from evaluation.rehearsal.vocabularies import (
    END,
    save_bert_tokenizer,
    save_clip_tokenizer,
    save_llama_tokenizer,
    save_opt_tokenizer,
)

SHARD_BYTES = 2 * 2**30
TRANSFORMERS, DIFFUSERS = "model.safetensors", "diffusion_pytorch_model.safetensors"
OPEN_CLIP = "open_clip_model.safetensors"
NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
"""The noise levels of every Stable Diffusion."""


@dataclass(frozen=True)
class Network:
    """One file of weights of a repository, in a folder of its own or at the top.

    ``prefix`` is in front of the published names, ``stored`` the type of the numbers.
    """

    folder: str
    file: str
    published: Published
    stored: torch.dtype
    prefix: str = ""
    shard_bytes: int | None = None

    def specs(self) -> list[Spec]:
        """Return the tensors of the file."""
        return specs_of(self.published.on_meta(), self.stored, self.prefix)


@dataclass(frozen=True)
class Repository:
    """A published model: its place below the root, its networks, and its other files."""

    place: str
    networks: tuple[Network, ...]
    write_rest: Callable[[Path], None]

    @property
    def stored_bytes(self) -> int:
        """The bytes of all tensors as they are stored, counted on the meta device."""
        return sum(spec.size_bytes for network in self.networks for spec in network.specs())

    def weights_bytes(self, precision: Mapping[str, torch.dtype]) -> int:
        """The bytes of all tensors in memory; ``precision`` has that of each network's folder."""
        return sum(
            spec.size_bytes
            for network in self.networks
            for spec in specs_of(network.published.on_meta(), precision.get(network.folder, torch.float32))
        )

    def write(self, root: Path, seed: int = 0) -> None:
        """Write the folder below ``root``; equal seeds give equal files."""
        generator, folder = Generator().manual_seed(seed), root / self.place
        for network in self.networks:
            place = folder / network.folder
            write_network(place, network.file, network.specs(), generator, network.shard_bytes)
            _configure(network.published.on_meta(), place)
        self.write_rest(folder)


def _configure(network: nn.Module, folder: Path) -> None:
    """Write ``config.json`` as its library does; those of open_clip and timm are written apart."""
    saving: Any = network
    if hasattr(network, "save_config"):
        saving.save_config(folder)
    elif hasattr(network, "config"):
        saving.config.architectures = [type(network).__name__]
        saving.config.save_pretrained(folder)


def blip2(size: Size) -> Repository:
    """``Salesforce/blip2-opt-2.7b``."""

    def rest(folder: Path) -> None:
        save_opt_tokenizer(folder)
        BlipImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)

    network = Network("", TRANSFORMERS, architectures.blip2(size), torch.float16, shard_bytes=_shard(size))
    return Repository("Salesforce/blip2-opt-2.7b", (network,), rest)


def llama_7b(size: Size) -> Repository:
    """``huggyllama/llama-7b``."""
    network = Network("", TRANSFORMERS, architectures.llama_7b(size), torch.float16, shard_bytes=_shard(size))
    return Repository("huggyllama/llama-7b", (network,), save_llama_tokenizer)


def _shard(size: Size) -> int:
    # Tiny models have several shards, too.
    return SHARD_BYTES if size == "published" else 2**20


def stable_diffusion(name: str, model: Model, place: str, prediction: str, size: Size) -> Repository:
    """Stable Diffusion 1.4 or 2: UNet, autoencoder, text encoder."""

    def rest(folder: Path) -> None:
        save_clip_tokenizer(folder / "tokenizer")
        scheduler = PNDMScheduler if name == "sd14" else DDIMScheduler
        further = {"steps_offset": 1, "set_alpha_to_one": False, "prediction_type": prediction}
        scheduler(**NOISE, **further).save_pretrained(folder / "scheduler")
        _index(folder, "StableDiffusionPipeline")

    networks = (
        Network("unet", DIFFUSERS, architectures.unet(model, size), torch.float16),
        Network("vae", DIFFUSERS, architectures.autoencoder(model, size), torch.float16),
        Network(
            "text_encoder", TRANSFORMERS, architectures.text_encoder(name, size), torch.float16, "text_model."
        ),
    )
    return Repository(place, networks, rest)


def sdxl(size: Size) -> Repository:
    """``stabilityai/stable-diffusion-xl-base-1.0``."""

    def rest(folder: Path) -> None:
        save_clip_tokenizer(folder / "tokenizer", END)
        # The first entry of the vocabulary: the second encoder was trained with it after the end.
        save_clip_tokenizer(folder / "tokenizer_2", "!")
        EulerDiscreteScheduler(**NOISE, steps_offset=1, timestep_spacing="leading").save_pretrained(
            folder / "scheduler"
        )
        _index(folder, "StableDiffusionXLPipeline", force_zeros_for_empty_prompt=True)

    first, second = (architectures.text_encoder(name, size) for name in ("sdxl-1", "sdxl-2"))
    networks = (
        Network("unet", DIFFUSERS, architectures.unet("sdxl", size), torch.float16),
        Network("vae", DIFFUSERS, architectures.autoencoder("sdxl", size), torch.float16),
        Network("text_encoder", TRANSFORMERS, first, torch.float16, "text_model."),
        # Its projection is not part of the text model, and has no prefix.
        Network("text_encoder_2", TRANSFORMERS, second, torch.float16),
    )
    return Repository("stabilityai/stable-diffusion-xl-base-1.0", networks, rest)


def _index(folder: Path, pipeline: str, **further: object) -> None:
    index = {"_class_name": pipeline, **further}
    (folder / "model_index.json").write_text(json.dumps(index), encoding="utf-8")


def open_clip_model(architecture: str, size: Size) -> Repository:
    """An open_clip model, where a suite finds ``open_clip:<architecture>``."""
    published, config = architectures.clip(architecture, size)

    def rest(folder: Path) -> None:
        described = {"model_cfg": config, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
        (folder / "open_clip_config.json").write_text(json.dumps(described), encoding="utf-8")

    return Repository(f"open_clip/{architecture}", (Network("", OPEN_CLIP, published, torch.float32),), rest)


def sentence_encoder(size: Size) -> Repository:
    """``sentence-transformers/all-MiniLM-L6-v2``."""
    network = Network("", TRANSFORMERS, architectures.sentence_encoder(size), torch.float32)
    return Repository("sentence-transformers/all-MiniLM-L6-v2", (network,), save_bert_tokenizer)


def masked_language_model(size: Size) -> Repository:
    """``distilbert/distilbert-base-uncased``."""
    network = Network("", TRANSFORMERS, architectures.masked_language_model(size), torch.float32)
    return Repository("distilbert/distilbert-base-uncased", (network,), save_bert_tokenizer)


def resnet50(size: Size) -> Repository:
    """timm's ResNet-50 for ImageNet-1k, as a folder of the suite."""
    published, architecture = architectures.resnet(size)

    def rest(folder: Path) -> None:
        # Rehearsed from a folder: the registry looks for `timm:` names in the hub's cache.
        config = {"architecture": architecture, "num_classes": 1000, "pretrained_cfg": {"num_classes": 1000}}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        # The classes' WordNet ids, in ImageNet-1k's order.
        (folder / "class_map.json").write_text(json.dumps(list(class_names())), encoding="utf-8")

    return Repository("timm/resnet50", (Network("", TRANSFORMERS, published, torch.float32),), rest)
