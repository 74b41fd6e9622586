"""Lets a torchvision whose compiled operators do not fit this torch be imported: import this first.

A torchvision built for CUDA beside a CPU torch cannot load its compiled part, and then fails on import
because the schemas of two operators are missing. Its Python transforms, all that Faultline uses, need
only those schemas to exist; calling an operator still raises.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import torch

SCHEMAS = {
    name: f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")
}


def compiled_libraries() -> list[Path]:
    """Return the files of torchvision's compiled part; none where it is not installed or has none."""
    spec = importlib.util.find_spec("torchvision")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [file for folder in folders for file in Path(folder).glob("_C*.so")]


def all_load(libraries: Sequence[Path]) -> bool:
    """Tell whether there are libraries and all of them load into this torch."""
    try:
        for library in libraries:
            torch.ops.load_library(str(library))
    except OSError:
        return False
    return bool(libraries)


def define_missing(library: torch.library.Library, *, present: bool) -> list[str]:
    """Define the schemas in ``library`` unless they are ``present``; returns the names defined."""
    # Defining a schema a second time raises.
    if present:
        return []
    for schema in SCHEMAS.values():
        library.define(schema)
    return list(SCHEMAS)


# A library's definitions live as long as the object does.
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
DEFINED = define_missing(_LIBRARY, present=all_load(compiled_libraries()))
