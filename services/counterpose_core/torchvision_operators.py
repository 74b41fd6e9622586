"""Makes a torchvision importable whose compiled operators do not fit this torch; import this module first.

A torchvision built for CUDA cannot load its compiled part with a CPU torch, and its import then fails because
the schemas of two operators are missing. Counterpose uses only its Python transforms, which need only these
schemas; calling an operator still raises an error.
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
    """Return the files of torchvision's compiled part; empty if it is not installed or has none."""
    spec = importlib.util.find_spec("torchvision")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [file for folder in folders for file in Path(folder).glob("_C*.so")]


def all_load(libraries: Sequence[Path]) -> bool:
    """Return True if there are libraries and this torch can load all of them."""
    try:
        for library in libraries:
            torch.ops.load_library(str(library))
    except OSError:
        return False
    return bool(libraries)


def define_missing(library: torch.library.Library, *, present: bool) -> list[str]:
    """Define the schemas in ``library`` unless they are ``present``, and return the defined names."""
    # Defining a schema a second time raises.
    if present:
        return []
    for schema in SCHEMAS.values():
        library.define(schema)
    return list(SCHEMAS)


# The definitions exist as long as this object.
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
DEFINED = define_missing(_LIBRARY, present=all_load(compiled_libraries()))
