"""Which copy of a model's weights is read: repositories hold variants such as ``model.fp16.safetensors``."""

from __future__ import annotations

import re
from pathlib import Path

# `model.fp16.safetensors`, and of several files `model.fp16-00001-of-00002.safetensors`.
_VARIANT = re.compile(r".+\.([a-z0-9_]+)(-\d{5}-of-\d{5})?\.safetensors")


def variant_of(file: Path) -> str | None:
    """Return the variant in the name of a file of weights; None for the usual ones."""
    found = _VARIANT.fullmatch(file.name)
    return None if found is None else found[1]


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that a library reads from ``folder``: those of `read_variant`."""
    wanted = read_variant(folder)
    return [file for file in sorted(folder.glob("*.safetensors")) if variant_of(file) == wanted]


def read_variant(folder: Path) -> str | None:
    """Return the variant to read: none where the usual weights are there, else the first by name."""
    found = {variant_of(file) for file in folder.glob("*.safetensors")}
    return None if None in found or not found else min(name for name in found if name is not None)
