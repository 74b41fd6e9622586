"""Tensors of the Open Inference Protocol v2: the wire's numbers and bytes, checked against their shape."""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import struct
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.errors import ImageTooLarge, InvalidRequest
from counterpose_core.images.codecs import MAX_PIXELS, encode_raw

_LENGTH = struct.Struct("<I")
_SHOWN = 60


class TensorSpec(BaseModel):
    """A tensor in a model's metadata; a size of -1 is open."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] = Field(default={}, exclude_if=lambda given: not given)


class InputTensor(BaseModel):
    """An input of an inference request; ``data`` is flat or nested as ``shape`` says."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None
    binary: bytes | None = Field(default=None, exclude=True)


class OutputTensor(NamedTuple):
    """An output: FP32 numbers, or texts of the datatype BYTES."""

    name: str
    values: npt.NDArray[np.float32] | list[str]


def images_of(tensor: InputTensor) -> list[bytes]:
    """Return the bytes of each image: raw pixels of UINT8 [N, H, W, 3], or the files of BYTES [N].

    Raises:
        InvalidRequest: datatype, shape or data are others.
        ImageTooLarge: an image has too many pixels.
    """
    if tensor.datatype == "BYTES":
        _require_count(tensor, MAX_BATCH)
        if tensor.binary is not None:
            return _lengths_and_bytes(tensor, tensor.binary)
        return [_from_base64(tensor, index, text) for index, text in enumerate(_texts(tensor))]
    if tensor.datatype != "UINT8":
        raise InvalidRequest(
            f"the input {tensor.name!r} is {tensor.datatype[:_SHOWN]!r}; send UINT8 [N, H, W, 3], or BYTES "
            "[N] of PNG, JPEG or WebP files"
        )
    pixels = _pixels(tensor)
    return [encode_raw(each) for each in pixels]


def texts_of(tensor: InputTensor, most: int) -> list[str]:
    """Return the texts of BYTES [N].

    Raises:
        InvalidRequest: datatype, shape or data are others, or a text is not UTF-8.
    """
    if tensor.datatype != "BYTES":
        raise InvalidRequest(
            f"the input {tensor.name!r} is {tensor.datatype[:_SHOWN]!r}; send BYTES [N] of texts"
        )
    _require_count(tensor, most)
    if tensor.binary is None:
        return _texts(tensor)
    try:
        return [text.decode() for text in _lengths_and_bytes(tensor, tensor.binary)]
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the input {tensor.name!r} has a text that is not UTF-8: {error.reason}"
        ) from error


def binary_of(output: OutputTensor) -> bytes:
    """Return the values as the binary data extension sends them, little-endian."""
    if isinstance(output.values, list):
        encoded = [text.encode() for text in output.values]
        return b"".join(_LENGTH.pack(len(each)) + each for each in encoded)
    return output.values.astype("<f4").tobytes()


def _pixels(tensor: InputTensor) -> npt.NDArray[np.uint8]:
    shape = tensor.shape
    if len(shape) != 4 or shape[3] != 3 or min(shape) < 1 or shape[0] > MAX_BATCH:
        raise InvalidRequest(
            f"the input {tensor.name!r} has the shape {_shown(shape)}; send [N, H, W, 3] with N from 1 to "
            f"{MAX_BATCH}"
        )
    if shape[1] * shape[2] > MAX_PIXELS:
        raise ImageTooLarge(
            f"the input {tensor.name!r} has images of {shape[2]} x {shape[1]} pixels, more than "
            f"{MAX_PIXELS}; scale them down"
        )
    data = tensor.binary if tensor.binary is not None else _bytes(tensor)
    _require_length(tensor, len(data))
    return np.frombuffer(data, np.uint8).reshape(shape)


def _bytes(tensor: InputTensor) -> bytes:
    flat = _flat(tensor)
    # By type first: true passes for 1 in every comparison.
    types = set(map(type, flat))
    if types <= {int}:
        with contextlib.suppress(ValueError):
            return bytes(flat)
    elif types <= {int, float}:
        # Some clients write every number as a fraction: 7.0.
        with contextlib.suppress(OverflowError, ValueError):
            return bytes(map(_whole, flat))
    wrong = next(value for value in flat if not _is_byte(value))
    raise InvalidRequest(
        f"the input {tensor.name!r} has {_shown(wrong)} in its data, which is no integer from 0 to 255"
    )


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError(value)
    return int(value)


def _is_byte(value: object) -> bool:
    return type(value) in (int, float) and value in range(256)


def _texts(tensor: InputTensor) -> list[str]:
    flat = _flat(tensor)
    _require_length(tensor, len(flat))
    if not all(type(text) is str for text in flat):
        raise InvalidRequest(f"the input {tensor.name!r} is BYTES, but its data are not all strings")
    return flat


def _flat(tensor: InputTensor) -> list[Any]:
    """Return the data as a flat list; a nested one must be nested as its shape says."""
    data = tensor.data
    if data is None:
        raise InvalidRequest(f"the input {tensor.name!r} has no data")
    for depth, size in enumerate(tensor.shape[:-1]):
        if not data or not isinstance(data[0], list):
            break
        if len(data) != math.prod(tensor.shape[: depth + 1]) or not all(
            isinstance(row, list) for row in data
        ):
            raise _unfit(tensor, f"{len(data)} rows at depth {depth}, not {size} in each row before")
        data = list(chain.from_iterable(data))
    return data


def _require_count(tensor: InputTensor, most: int) -> None:
    if len(tensor.shape) != 1 or not 1 <= tensor.shape[0] <= most:
        raise InvalidRequest(
            f"the input {tensor.name!r} has the shape {_shown(tensor.shape)}; send BYTES as [N] with N from "
            f"1 to {most}"
        )


def _require_length(tensor: InputTensor, found: int) -> None:
    if found != math.prod(tensor.shape):
        raise _unfit(tensor, f"{found} values")


def _unfit(tensor: InputTensor, found: str) -> InvalidRequest:
    return InvalidRequest(
        f"the data of the input {tensor.name!r} do not fit its shape {_shown(tensor.shape)}: found {found}"
    )


def _lengths_and_bytes(tensor: InputTensor, data: bytes) -> list[bytes]:
    """Split the binary form of BYTES: each value after its length, four bytes little-endian."""
    values: list[bytes] = []
    at = 0
    while at < len(data) and len(values) <= tensor.shape[0]:
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(data, at)[0] if start <= len(data) else len(data) + 1
        if end > len(data):
            raise _unfit(tensor, f"a value that ends after the {len(data)} bytes of the tensor")
        values.append(data[start:end])
        at = end
    _require_length(tensor, len(values))
    return values


def _from_base64(tensor: InputTensor, index: int, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"value {index} of the input {tensor.name!r} is not Base64, as image files in JSON must be"
        ) from error


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
