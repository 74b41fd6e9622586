"""An ONNX file read as data: its allowed contents, and the files that belong to it.

The file is a protocol buffer with tensors and names of operators, not a pickle: reading it runs none of it,
and inference runs only the runtime's own kernels. Two kinds of content could break this rule and are refused
before the runtime gets the file: operators of other domains, which need a native library, and tensors in a
file outside the model's folder. The runtime gets bytes, never a path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message

from counterpose_core.errors import ModelFormatRefused

ONNX_FILE = "model.onnx"
LARGEST_BYTES = 4 * 2**30
"""For all files of a model together; a ViT-H in float32 takes 2.5 GB."""
OPERATOR_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""The domains of the standard and of the operators that are part of onnxruntime."""

_SAME_NUMBERS = frozenset(
    {
        "Cast", "DequantizeLinear", "Dropout", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze",
        "Unsqueeze",
    }
)  # fmt: skip
_LONGEST_END = 64

# A single path component, so that it names neither a folder nor the runtime's memory-address marker.
_DATA_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class OnnxFile:
    """The bytes of ``model.onnx``, the bytes of its data files by name, and the digest of all.

    ``last_operator`` computes the output, but for operators that change shape or precision; empty if unknown.
    """

    content: bytes
    data: Mapping[str, bytes]
    revision: str
    last_operator: str = ""

    @property
    def size_bytes(self) -> int:
        """Memory its weights take."""
        return len(self.content) + sum(map(len, self.data.values()))


def read_onnx(folder: Path, name: str) -> OnnxFile:
    """Read ``model.onnx`` of ``folder`` and its data files, and check what they hold.

    Raises:
        ModelFormatRefused: the file is not ONNX or too large, has an operator of another domain, or needs a
            data file that is missing, too short or outside the folder.
    """
    room = LARGEST_BYTES
    content = _bytes_of(folder / ONNX_FILE, name, room)
    room -= len(content)
    model = _parsed(content, name)
    parts = list(_parts(model))
    _require_known_operators(parts, name)
    tensors = [part for part in parts if isinstance(part, onnx.TensorProto) and _is_outside(part)]
    data: dict[str, bytes] = {}
    for file in sorted({_location(tensor, name) for tensor in tensors}):
        data[file] = _bytes_of(folder / file, name, room)
        room -= len(data[file])
    for tensor in tensors:
        _require_within(tensor, len(data[_location(tensor, name)]), name)
    return OnnxFile(content, data, _revision(content, data), _last_operator(model))


def _bytes_of(path: Path, name: str, room: int) -> bytes:
    # With a link, a model could choose which of this machine's files are read.
    if path.name != ONNX_FILE and path.resolve().parent != path.parent.resolve():
        raise ModelFormatRefused(
            f"{path.name!r} of {name!r} is outside its folder; put the file into the folder"
        )
    try:
        if path.stat().st_size > room:
            raise ModelFormatRefused(
                f"{path.name!r} makes {name!r} larger than the limit of {LARGEST_BYTES} bytes"
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelFormatRefused(
            f"{path.name!r} of {name!r} cannot be read; check that the file exists and is readable"
        ) from error


def _parsed(content: bytes, name: str) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise ModelFormatRefused(f"{ONNX_FILE!r} of {name!r} is not an ONNX file; export it again") from error
    return model


def _parts(message: Message) -> Iterator[Message]:
    """Yield a message and all messages inside it, so that no graph or tensor is missed."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from _parts(part)


def _last_operator(model: onnx.ModelProto) -> str:
    functions = {(each.domain, each.name): each for each in model.functions}
    nodes = model.graph.node
    name = model.graph.output[0].name if model.graph.output else ""
    for _ in range(_LONGEST_END):
        node = next((each for each in nodes if name in each.output), None)
        if node is None:
            return ""
        if (inside := functions.get((node.domain, node.op_type))) is not None:
            nodes, name = inside.node, inside.output[list(node.output).index(name)]
        elif node.op_type in _SAME_NUMBERS and node.input:
            name = node.input[0]
        else:
            return str(node.op_type)
    return ""


def _require_known_operators(parts: list[Message], name: str) -> None:
    own = {(part.domain, part.name) for part in parts if isinstance(part, onnx.FunctionProto)}
    for part in parts:
        if not isinstance(part, onnx.NodeProto) or part.domain in OPERATOR_DOMAINS:
            continue
        if (part.domain, part.op_type) not in own:
            raise ModelFormatRefused(
                f"{ONNX_FILE!r} of {name!r} needs the custom operator {f'{part.domain}.{part.op_type}'!r}"
            )


def _is_outside(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.external_data) or tensor.data_location == onnx.TensorProto.EXTERNAL


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _location(tensor: onnx.TensorProto, name: str) -> str:
    location = _entries(tensor).get("location", "")
    if not _DATA_FILE.fullmatch(location):
        raise ModelFormatRefused(
            f"{ONNX_FILE!r} of {name!r} keeps {tensor.name!r} in {location!r}, which is not a file of its "
            "folder"
        )
    return location


def _require_within(tensor: onnx.TensorProto, size: int, name: str) -> None:
    entries = _entries(tensor)
    offset, length = entries.get("offset", "0"), entries.get("length", "")
    known = all(number.isascii() and number.isdigit() and len(number) < 20 for number in (offset, length))
    if not known or int(offset) + int(length) > size:
        raise ModelFormatRefused(
            f"{entries['location']!r} of {name!r} has {size} bytes, "
            f"too few for {tensor.name!r} of {length!r} bytes at offset {offset!r}"
        )


def _revision(content: bytes, data: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(content)
    for file, held in data.items():
        total.update(f"{file} {hashlib.sha256(held).hexdigest()}\n".encode())
    return total.hexdigest()
