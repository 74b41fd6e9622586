"""What a model's files say about its size, its images and its training, read without loading the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto
from safetensors import SafetensorError, safe_open

from counterpose_services.classifiers.onnx_file import LARGEST_BYTES

LONGEST_TAG = 100
# Stored with the weights, but computed rather than learned by gradients.
_STATISTICS = (".running_mean", ".running_var", ".num_batches_tracked")
_SAFETENSORS_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_ONNX_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_ONNX_WHOLE = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


class FileTraits(NamedTuple):
    """The number of parameters in a file and the shorter input side in pixels; None if unknown."""

    parameters: int | None = None
    resolution: int | None = None


def stored_parameters(*files: Path) -> int | None:
    """Count the parameters in the header of the first of these safetensors files that exists.

    Batch-norm statistics and integers are not counted. None if no file can be read.
    """
    for file in files:
        if file.is_file():
            return _count_stored(file)
    return None


def _count_stored(file: Path) -> int | None:
    total = 0
    try:
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a mapping
                part = tensors.get_slice(name)
                if part.get_dtype() in _SAFETENSORS_FLOATS and not is_statistic(name):
                    total += math.prod(part.get_shape())
    except (SafetensorError, OSError):
        # The list shows what exists; a request for a broken model says what is wrong with it.
        return None
    return total


def is_statistic(name: str) -> bool:
    """Whether a tensor of this name is a batch-norm statistic, which is not learned."""
    return name.endswith(_STATISTICS)


def short_text(found: Mapping[str, Any], key: str) -> str:
    """Return the text under ``key``, at most 100 characters; empty if there is none."""
    text = found.get(key)
    # JSON can contain a lone surrogate, which our answers cannot encode.
    return text[:LONGEST_TAG].encode(errors="replace").decode() if isinstance(text, str) else ""


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
    """Return ``pretrained_cfg.tag``, timm's name of the training data; empty if there is none."""
    return short_text(_pretrained(config), "tag")


def _pretrained(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("pretrained_cfg")
    return found if isinstance(found, Mapping) else {}


def onnx_traits(file: Path) -> FileTraits:
    """Count the parameters of an ONNX file and find the side of its input images.

    Scalars and batch-norm statistics are not counted. The number is None for a quantised network, whose
    parameters differ from the trained ones, and for a file that cannot be read.
    """
    try:
        status = file.stat()
    except OSError:
        return FileTraits()
    return _traits(file, status.st_size, status.st_mtime_ns)


# A list describes every folder, and reading a large network takes seconds; so once until the file changes.
@lru_cache(maxsize=256)
def _traits(file: Path, size: int, changed: int) -> FileTraits:
    if size > LARGEST_BYTES:
        return FileTraits()
    try:
        # Data files need not be read: the graph contains the shapes.
        graph = onnx.ModelProto.FromString(file.read_bytes()).graph
    except (OSError, DecodeError):
        # The list shows what exists; a request for a broken model says what is wrong with it.
        return FileTraits()
    constants = (part.t for node in graph.node for part in node.attribute if part.HasField("t"))
    tensors = [*graph.initializer, *constants]
    return FileTraits(
        None if graph.sparse_initializer else _count_learned(tensors), _side(graph.input, tensors)
    )


def _count_learned(tensors: Sequence[TensorProto]) -> int | None:
    arrays = [tensor for tensor in tensors if tensor.dims]
    known = all(
        tensor.data_type in (*_ONNX_FLOATS, *_ONNX_WHOLE) and min(tensor.dims) >= 0 for tensor in arrays
    )
    if not known:
        return None
    learned = (each for each in arrays if each.data_type in _ONNX_FLOATS and not is_statistic(each.name))
    return sum(math.prod(tensor.dims) for tensor in learned) or None


def _side(inputs: Iterable[onnx.ValueInfoProto], tensors: Sequence[TensorProto]) -> int | None:
    """Return the shorter side of the one input (N, 3, H, W) that is not a weight; None if it is open."""
    weights = {tensor.name for tensor in tensors}
    shapes = [one.type.tensor_type.shape.dim for one in inputs if one.name not in weights]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    height, width = (dim.dim_value for dim in shapes[0][2:])
    return min(height, width) if height > 0 and width > 0 else None
