"""What a model's files say of its size and training, read without loading it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

LONGEST_TAG = 100
# Kept with the weights, but computed and not learned by gradients.
_STATISTICS = (".running_mean", ".running_var", ".num_batches_tracked")
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


class FileTraits(NamedTuple):
    """The number of parameters in a file, and the shorter side in pixels of what it takes; None: not told."""

    parameters: int | None = None
    resolution: int | None = None


def stored_parameters(*files: Path) -> int | None:
    """Count the parameters in the first of these safetensors files that is there, by its header.

    Statistics of batch norms and whole numbers are none. None where no file can be read.
    """
    for file in files:
        if file.is_file():
            return _counted(file)
    return None


def _counted(file: Path) -> int | None:
    total = 0
    try:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - no mapping
                part = tensors.get_slice(name)
                if part.get_dtype() in _FLOATS and not is_statistic(name):
                    total += math.prod(part.get_shape())
    except (SafetensorError, OSError):
        # A list names what is there; asking for a broken model says what is wrong with it.
        return None
    return total


def is_statistic(name: str) -> bool:
    """Whether a tensor of this name is kept by a batch norm, and not learned."""
    return name.endswith(_STATISTICS)


def told_text(told: Mapping[str, Any], key: str) -> str:
    """The short text under ``key``; empty where there is none."""
    found = told.get(key)
    # JSON can write half a character, which no answer of ours could carry.
    return found[:LONGEST_TAG].encode(errors="replace").decode() if isinstance(found, str) else ""


def described_resolution(config: Mapping[str, Any]) -> int | None:
    """The shorter side in pixels of ``pretrained_cfg.input_size`` [3, height, width]."""
    size = _pretrained(config).get("input_size")
    if not isinstance(size, list) or len(size) != 3:
        return None
    sides = [side for side in size[1:] if type(side) is int and side > 0]
    return min(sides) if len(sides) == 2 else None


def clip_resolution(config: Mapping[str, Any]) -> int | None:
    """The side in pixels of ``model_cfg.vision_cfg.image_size`` of an open_clip configuration."""
    part: object = config
    for key in ("model_cfg", "vision_cfg", "image_size"):
        part = part.get(key) if isinstance(part, Mapping) else None
    return part if type(part) is int and part > 0 else None


def described_training(config: Mapping[str, Any]) -> str:
    """``pretrained_cfg.tag``, as timm names what weights were trained on; empty where it is not said."""
    return told_text(_pretrained(config), "tag")


def _pretrained(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("pretrained_cfg")
    return found if isinstance(found, Mapping) else {}
