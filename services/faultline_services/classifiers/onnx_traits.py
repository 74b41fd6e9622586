"""What an ONNX file says of its size and its pictures, read past the weights and not through them.

A list describes every folder, and a network may have gigabytes. In the file's own format, a protocol
buffer, each part says how long it is, so that only the heads of tensors are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from faultline_services.classifiers.stored_traits import FileTraits, is_statistic

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_MOST_PARTS = 1_000_000
"""The largest published networks have some thousand tensors; a file of more parts than this is none."""

_LONGEST_HEAD = 2**20

# Fields of onnx.proto, which the format never renumbers.
_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_NODE = onnx.GraphProto.NODE_FIELD_NUMBER
_INITIALISER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_SPARSE = onnx.GraphProto.SPARSE_INITIALIZER_FIELD_NUMBER
_INPUT = onnx.GraphProto.INPUT_FIELD_NUMBER
_ATTRIBUTE = onnx.NodeProto.ATTRIBUTE_FIELD_NUMBER
_TENSOR = onnx.AttributeProto.T_FIELD_NUMBER
_HEAD = (
    onnx.TensorProto.DIMS_FIELD_NUMBER,
    onnx.TensorProto.DATA_TYPE_FIELD_NUMBER,
    onnx.TensorProto.NAME_FIELD_NUMBER,
)
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_WHOLE = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)


class _Part(NamedTuple):
    """A field of a message: its number, and where it, its content and its end lie in the file."""

    number: int
    at: int
    start: int
    end: int


def onnx_traits(file: Path) -> FileTraits:
    """Count the float numbers of ``file``'s tensors, and find the side of the pictures its graph takes.

    Single numbers and statistics of batch norms are no parameters. A quantised network's are not counted,
    as it has others than it was trained with, and neither are those of a file that cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return _Reader(stream).traits()
    except (OSError, ValueError, DecodeError):
        # A list names what is there; asking for a broken model says what is wrong with it.
        return FileTraits()


class _Reader:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._parts = stream, 0

    def traits(self) -> FileTraits:
        size = self._stream.seek(0, 2)
        tensors: list[TensorProto] = []
        inputs: list[onnx.ValueInfoProto] = []
        is_sparse = False
        for graph in self._within(_Part(0, 0, 0, size), _GRAPH):
            for part in self._within(graph):
                is_sparse |= part.number == _SPARSE
                if part.number == _INPUT:
                    inputs.append(onnx.ValueInfoProto.FromString(self._bytes(part.start, part.end)))
                elif part.number == _INITIALISER:
                    tensors.append(self._head(part))
                elif part.number == _NODE:
                    tensors += self._constants(part)
        return FileTraits(None if is_sparse else _counted(tensors), _side(inputs, tensors))

    def _constants(self, node: _Part) -> Iterator[TensorProto]:
        """Tensors that a node brings along itself."""
        for attribute in self._within(node, _ATTRIBUTE):
            for tensor in self._within(attribute, _TENSOR):
                yield self._head(tensor)

    def _head(self, tensor: _Part) -> TensorProto:
        """A tensor's type, shape and name without its numbers."""
        parts = [part for part in self._within(tensor) if part.number in _HEAD]
        head: TensorProto = TensorProto.FromString(b"".join(self._bytes(one.at, one.end) for one in parts))
        return head

    def _within(self, message: _Part, *wanted: int) -> Iterator[_Part]:
        at = message.start
        while at < message.end:
            self._parts += 1
            if self._parts > _MOST_PARTS:
                raise ValueError("too many parts")
            part = self._part(at)
            if part.end > message.end:
                raise ValueError("a part is longer than the whole")
            if not wanted or part.number in wanted:
                yield part
            at = part.end

    def _part(self, at: int) -> _Part:
        self._stream.seek(at)
        number, kind = divmod(self._varint(), 8)
        if kind == _VARINT:
            start = self._stream.tell()
            self._varint()
            return _Part(number, at, start, self._stream.tell())
        if kind == _LENGTH:
            length = self._varint()
            start = self._stream.tell()
            return _Part(number, at, start, start + length)
        if kind not in _FIXED:
            raise ValueError("no such kind of part")
        start = self._stream.tell()
        return _Part(number, at, start, start + _FIXED[kind])

    def _varint(self) -> int:
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._stream.read(1)
            if not byte:
                raise ValueError("the file ends within a number")
            value |= (byte[0] & 0x7F) << (7 * place)
            if byte[0] < 0x80:
                return value
        raise ValueError("a number is too long")

    def _bytes(self, start: int, end: int) -> bytes:
        if end - start > _LONGEST_HEAD:
            raise ValueError("a part is too long for what it is")
        self._stream.seek(start)
        return self._stream.read(end - start)


def _counted(tensors: list[TensorProto]) -> int | None:
    arrays = [tensor for tensor in tensors if tensor.dims]
    known = all(tensor.data_type in (*_FLOATS, *_WHOLE) and min(tensor.dims) >= 0 for tensor in arrays)
    if not known:
        return None
    learned = (each for each in arrays if each.data_type in _FLOATS and not is_statistic(each.name))
    return sum(math.prod(tensor.dims) for tensor in learned) or None


def _side(inputs: list[onnx.ValueInfoProto], tensors: list[TensorProto]) -> int | None:
    """The shorter side of the one input (N, 3, H, W) that is no weight; None where it is open."""
    weights = {tensor.name for tensor in tensors}
    shapes = [one.type.tensor_type.shape.dim for one in inputs if one.name not in weights]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    height, width = (dim.dim_value for dim in shapes[0][2:])
    return min(height, width) if height > 0 and width > 0 else None
