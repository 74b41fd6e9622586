"""What an ONNX file says of its size and its images, read without running it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from faultline_services.classifiers.onnx_file import LARGEST_BYTES
from faultline_services.classifiers.stored_traits import FileTraits, is_statistic

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_WHOLE = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


def onnx_traits(file: Path) -> FileTraits:
    """Count the float numbers of ``file``'s tensors, and find the side of the images its graph takes.

    Single numbers and statistics of batch norms are no parameters. A quantised network's are not counted,
    as it has others than it was trained with, and neither are those of a file that cannot be read.
    """
    try:
        status = file.stat()
    except OSError:
        return FileTraits()
    return _traits(file, status.st_size, status.st_mtime_ns)


# A list describes every folder, and reading a large network takes seconds: once, until the file is another.
@lru_cache(maxsize=256)
def _traits(file: Path, size: int, changed: int) -> FileTraits:
    if size > LARGEST_BYTES:
        return FileTraits()
    try:
        # Data files are left alone: shapes stand in the graph.
        graph = onnx.ModelProto.FromString(file.read_bytes()).graph
    except (OSError, DecodeError):
        # A list names what is there; asking for a broken model says what is wrong with it.
        return FileTraits()
    constants = (part.t for node in graph.node for part in node.attribute if part.HasField("t"))
    tensors = [*graph.initializer, *constants]
    return FileTraits(None if graph.sparse_initializer else _counted(tensors), _side(graph.input, tensors))


def _counted(tensors: Sequence[TensorProto]) -> int | None:
    arrays = [tensor for tensor in tensors if tensor.dims]
    known = all(tensor.data_type in (*_FLOATS, *_WHOLE) and min(tensor.dims) >= 0 for tensor in arrays)
    if not known:
        return None
    learned = (each for each in arrays if each.data_type in _FLOATS and not is_statistic(each.name))
    return sum(math.prod(tensor.dims) for tensor in learned) or None


def _side(inputs: Iterable[onnx.ValueInfoProto], tensors: Sequence[TensorProto]) -> int | None:
    """The shorter side of the one input (N, 3, H, W) that is no weight; None where it is open."""
    weights = {tensor.name for tensor in tensors}
    shapes = [one.type.tensor_type.shape.dim for one in inputs if one.name not in weights]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    height, width = (dim.dim_value for dim in shapes[0][2:])
    return min(height, width) if height > 0 and width > 0 else None
