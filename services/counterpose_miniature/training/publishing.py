"""Finished weights as the engines load them: fp16 safetensors, read back as fp32, with a model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save
from torch import nn

from counterpose_miniature.training.stage import write_atomically

if TYPE_CHECKING:
    # The oracle's training writes weights too, and needs no library of language models.
    from transformers import PreTrainedModel


def write_half(model: nn.Module, path: Path) -> None:
    """Write a model's state as fp16 safetensors; counters stay whole numbers."""
    tensors = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in model.state_dict().items()
    }
    write_atomically(path, save(tensors))


def save_half(model: PreTrainedModel, folder: Path) -> None:
    """Save a model's weights as fp16 safetensors whose configuration asks for fp32 when they are loaded."""
    model.half().save_pretrained(folder)
    for file in folder.glob("*config.json"):
        settings = _without_paths(json.loads(file.read_text(encoding="utf-8")))
        write_atomically(file, (json.dumps(settings, indent=2, sort_keys=True) + "\n").encode())
    # Further training, such as the adapter's, starts from the rounded weights that were saved.
    model.float()


def _without_paths(settings: dict[str, object]) -> dict[str, object]:
    """Set every nested dtype to fp32; drop the folder a model was read from."""
    for key, value in list(settings.items()):
        if key in ("dtype", "torch_dtype"):
            settings[key] = "float32"
        elif key == "_name_or_path":
            settings.pop(key)
        elif isinstance(value, dict):
            settings[key] = _without_paths(value)
    return settings


def write_card(folder: Path, title: str, paragraphs: list[str]) -> None:
    """Write the model card of a weights folder."""
    text = "\n\n".join([f"# {title}", *paragraphs])
    write_atomically(folder / "README.md", (text + "\n").encode())
