"""A learned token's files: its bundle and its training checkpoint, safetensors with a JSON description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from faultline_core.contract.base import ModelIdentity
from faultline_core.contract.tokens import TOKEN_FORMAT, DroppedImage, TokenDescription
from faultline_core.editing.training_task import Learning
from faultline_core.errors import InvalidRequest, ModelFormatRefused

_LENGTH = 8
"""Bytes in front of a safetensors header, little-endian: how long it is."""
TOKEN_KIND, VECTORS = "faultline-token", "vectors"
CHECKPOINT_KIND = "faultline-token-checkpoint"
CHECKPOINT_FORMAT = 1
"""Raised when equal inputs come to other vectors than before."""
Recipe = Mapping[str, object]
"""Every input that the path of a class hangs on, by name, as JSON has it."""


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


@dataclass(frozen=True)
class TokenBundle:
    """One class: vectors (k, D) in float32, and their description."""

    vectors: Tensor
    description: TokenDescription

    def require_fit(self, model: ModelIdentity, width: int) -> None:
        """Refuse a token of other weights than ``model``'s, whose text encoder is ``width`` wide.

        Another revision of the same model is let through: its digest changes with any file of the folder.

        Raises:
            InvalidRequest: the widths differ, or the models' names.
        """
        told = self.description
        if told.width != width:
            raise InvalidRequest(
                f"the token of {told.class_name!r} has width {told.width}, for the text encoder of "
                f"{told.model.id!r}; the text encoder of {model.id!r} has width {width}"
            )
        # Equal width says nothing: each text encoder has a table of its own.
        if told.model.id != model.id:
            raise InvalidRequest(
                f"the token of {told.class_name!r} was learned for {told.model.id!r}, not for {model.id!r}; "
                "learn it for this model"
            )


def pack_bundle(bundle: TokenBundle) -> bytes:
    """Write a bundle; equal ones give equal bytes."""
    vectors = bundle.vectors.to(torch.float32)
    return pack_described({VECTORS: vectors}, TOKEN_KIND, bundle.description.model_dump(mode="json"))


def unpack_bundle(data: bytes) -> TokenBundle:
    """Read a bundle.

    Raises:
        ModelFormatRefused: it is no safetensors or no bundle, of another version, not what it says of itself,
            or not finite.
    """
    tensors, told = unpack_described(data, TOKEN_KIND)
    try:
        description = TokenDescription.model_validate(told)
    except ValidationError as error:
        raise ModelFormatRefused(f"the token bundle's description is invalid: {error}") from error
    if description.format != TOKEN_FORMAT:
        raise ModelFormatRefused(
            f"the token bundle of {description.class_name!r} has version {description.format}, "
            f"not {TOKEN_FORMAT}"
        )
    vectors, wanted = tensors.get(VECTORS), (description.vectors, description.width)
    if vectors is None or vectors.shape != wanted or vectors.dtype != torch.float32:
        raise ModelFormatRefused(
            f"the token bundle of {description.class_name!r} does not hold {wanted[0]} vectors of {wanted[1]}"
        )
    if not bool(torch.isfinite(vectors).all()):
        raise ModelFormatRefused(
            f"the token bundle of {description.class_name!r} has numbers that are not finite"
        )
    return TokenBundle(vectors, description)


@dataclass(frozen=True)
class Checkpoint:
    """The state of a class, its loss at every step so far, and the images that could not be read."""

    state: Learning
    losses: tuple[float, ...]
    dropped: tuple[DroppedImage, ...]


def pack_checkpoint(checkpoint: Checkpoint, recipe: Recipe) -> bytes:
    """Write a checkpoint; equal ones give equal bytes."""
    state = checkpoint.state
    tensors = {
        "vectors": state.vectors,
        "first": state.first,
        "second": state.second,
        "losses": torch.tensor(checkpoint.losses, dtype=torch.float64),
    }
    dropped = [each.model_dump(mode="json") for each in checkpoint.dropped]
    told = {"format": CHECKPOINT_FORMAT, "recipe": dict(recipe), "step": state.step, "dropped": dropped}
    return pack_described(tensors, CHECKPOINT_KIND, told)


def unpack_checkpoint(data: bytes, recipe: Recipe, like: Tensor) -> Checkpoint:
    """Read the checkpoint of a learning by ``recipe``, whose vectors are ``like`` these.

    Raises:
        InvalidRequest: it belongs to another learning; what differs is named.
        ModelFormatRefused: it is no checkpoint of this version.
    """
    tensors, told = unpack_described(data, CHECKPOINT_KIND)
    if not isinstance(told, dict) or told.get("format") != CHECKPOINT_FORMAT:
        raise ModelFormatRefused(
            f"the checkpoint does not have version {CHECKPOINT_FORMAT}; learn the token again"
        )
    other = told["recipe"]
    differing = [name for name, wanted in recipe.items() if other.get(name) != wanted]
    if differing:
        name = differing[0]
        raise InvalidRequest(
            f"the checkpoint belongs to another training: its {name} is {other.get(name)!r}, not "
            f"{recipe[name]!r}; send its own request, or no checkpoint"
        )
    vectors, first, second = (tensors[name].to(like) for name in ("vectors", "first", "second"))
    dropped = tuple(DroppedImage.model_validate(each) for each in told["dropped"])
    return Checkpoint(
        Learning(vectors, first, second, told["step"]), tuple(tensors["losses"].tolist()), dropped
    )
