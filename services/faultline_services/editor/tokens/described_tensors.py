"""Tensors as safetensors bytes with JSON in the header that says what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from faultline_core.errors import ModelFormatRefused

_LENGTH = 8
"""Bytes in front of a safetensors header, little-endian: how long it is."""


def pack_described(tensors: Mapping[str, Tensor], kind: str, told: Mapping[str, object]) -> bytes:
    """Write tensors, of any device, with what is told of them under ``kind``; equal ones give equal bytes."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry, as the library writes several in an order that changes from process to process.
    return bytes(save(stored, metadata={kind: json.dumps(told, sort_keys=True, allow_nan=False)}))


def unpack_described(data: bytes, kind: str) -> tuple[dict[str, Tensor], object]:
    """Read what `pack_described` wrote under ``kind``.

    Raises:
        ModelFormatRefused: the bytes are no safetensors, or nothing is told in them under ``kind``.
    """
    try:
        # The library holds the header against the bytes before it is looked into here.
        tensors = load(data)
    except SafetensorError as error:
        raise ModelFormatRefused(
            f"the {len(data)} bytes of the {kind} are not safetensors: {error}"
        ) from error
    header = json.loads(data[_LENGTH : _LENGTH + int.from_bytes(data[:_LENGTH], "little")])
    try:
        return tensors, json.loads(header["__metadata__"][kind])
    except (KeyError, ValueError) as error:
        raise ModelFormatRefused(
            f"the {len(data)} bytes are safetensors but do not describe a {kind}"
        ) from error
