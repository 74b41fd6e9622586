"""The ``config.json`` of an ONNX network: its preprocessing in timm's terms, and the kind of its output.

``pretrained_cfg`` must contain ``mean`` and ``std``, and ``input_size`` [3, height, width] unless the graph
has it; ``interpolation``, ``crop_pct`` and ``crop_mode`` are as in timm, with its defaults. ``output`` is
``logits`` or ``probabilities``; by default, a graph that ends in a softmax tells it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

# Before anything that imports torchvision, as timm does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
from PIL import Image
from timm.data import create_transform, resolve_data_config
from torch import Tensor

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.classifiers.timm_folder import CONFIGURATION
from counterpose_services.models.cached_forward import Floats

OutputKind = Literal["logits", "probabilities"]

SUM_TOLERANCE = 1e-3
_EACH_ALONE = ("Sigmoid", "HardSigmoid")
_KINDS = " or ".join(map(repr, get_args(OutputKind)))
_LARGEST_SIDE = 4096
_PREPROCESSING = ("interpolation", "mean", "std", "crop_pct", "crop_mode")


@dataclass(frozen=True)
class NetworkInput:
    """The shape of the network's input (batch, 3, height, width); an open size is None."""

    name: str
    batch: int | None
    height: int | None
    width: int | None


def output_kind(config: dict[str, Any], name: str) -> OutputKind | None:
    """Read ``output``; None if it is not given.

    Raises:
        ModelFormatRefused: it has another value.
    """
    kind = config.get("output")
    if "output" in config and kind not in get_args(OutputKind):
        raise ModelFormatRefused(
            f"'output' in {CONFIGURATION!r} of {name!r} is {kind!r}, not one of {_KINDS}"
        )
    return cast("OutputKind | None", kind)


def kind_of(rows: Floats, declared: OutputKind | None, last_operator: str, name: str) -> OutputKind:
    """Tell what a network's numbers are: as declared, by the end of its graph, and by rows of trial images.

    Args:
        rows: its numbers for some images (n, classes).
        declared: what the configuration says.
        last_operator: the operator that computes them.
        name: of the classifier, for errors.

    Raises:
        ModelFormatRefused: they judge each class alone, or are probabilities where logits are declared.
    """
    if last_operator in _EACH_ALONE:
        raise ModelFormatRefused(
            f"the graph of {name!r} ends in a {last_operator}, whose scores judge each class alone, and one "
            "class of several is asked for; export it without that operator if exactly one class is right"
        )
    odds = bool((rows >= 0.0).all()) and bool((np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE).all())
    ends = last_operator == "Softmax" or odds
    if ends and declared == "logits":
        raise ModelFormatRefused(
            f"{name!r} returns probabilities where logits were expected: set 'output' to 'probabilities' in "
            f"its {CONFIGURATION!r}"
        )
    return declared or ("probabilities" if ends else "logits")


def preprocessing(
    config: dict[str, Any], taken: NetworkInput, name: str
) -> tuple[dict[str, Any], Callable[[Image.Image], Tensor]]:
    """Read ``pretrained_cfg``; return all settings and the transform from an image to (3, height, width).

    Raises:
        ModelFormatRefused: mean, standard deviation or size is missing or unusable, or contradicts the graph.
    """
    found = config.get("pretrained_cfg")
    described = found if isinstance(found, dict) else {}
    if not _is_colour(described.get("mean"), above=-math.inf) or not _is_colour(
        described.get("std"), above=0.0
    ):
        # No default: with the wrong mean, a good network predicts badly, and no error would show it.
        raise ModelFormatRefused(
            f"'pretrained_cfg' in {CONFIGURATION!r} of {name!r} must give three numbers for 'mean' and 'std'"
        )
    size = _input_size(described.get("input_size"), taken, name)
    known = {key: described[key] for key in _PREPROCESSING if key in described}
    try:
        settings = resolve_data_config({"input_size": size}, pretrained_cfg=known)
        transform = create_transform(**settings, is_training=False)
        transform(Image.new("RGB", (64, 64)))
    except (TypeError, ValueError, KeyError, AssertionError, AttributeError) as error:
        raise ModelFormatRefused(
            f"timm cannot build the preprocessing in {CONFIGURATION!r} of {name!r}; check 'pretrained_cfg'"
        ) from error
    return settings, transform


def _is_colour(value: object, *, above: float) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return all(type(one) in (int, float) and math.isfinite(one) and one > above for one in value)


def _input_size(described: object, taken: NetworkInput, name: str) -> tuple[int, int, int]:
    fixed = [3, taken.height, taken.width]
    sizes = described if isinstance(described, list) else fixed
    if len(sizes) != 3 or not all(type(size) is int and 0 < size <= _LARGEST_SIDE for size in sizes):
        raise ModelFormatRefused(
            f"{CONFIGURATION!r} of {name!r} must give 'input_size' as [3, height, width], not {described!r}"
        )
    if any(of_graph not in (None, size) for of_graph, size in zip(fixed, sizes, strict=True)):
        raise ModelFormatRefused(
            f"'input_size' in {CONFIGURATION!r} of {name!r} is {sizes}, but the graph takes {fixed}"
        )
    return cast("tuple[int, int, int]", tuple(sizes))
