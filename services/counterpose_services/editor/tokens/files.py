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

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.field_errors import in_words
from counterpose_core.contract.tokens import TOKEN_FORMAT, DroppedImage, TokenDescription
from counterpose_core.editing.training_task import Learning
from counterpose_core.errors import InvalidRequest, ModelFormatRefused

_LENGTH = 8
"""Number of bytes in front of a safetensors header that give its length, little-endian."""
TOKEN_KIND, VECTORS = "counterpose-token", "vectors"
_PUBLISHED = "; a vector that another program learned is sent as a published token, by token-files"
CHECKPOINT_KIND = "counterpose-token-checkpoint"
CHECKPOINT_FORMAT = 1
"""To be increased when equal inputs give other vectors than before."""

Recipe = Mapping[str, object]
"""Every input that the training of a class depends on, by name, as JSON values."""


def pack_described(tensors: Mapping[str, Tensor], kind: str, description: Mapping[str, object]) -> bytes:
    """Pack tensors with their description under ``kind``; equal inputs give equal bytes."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # A single entry, because the library writes several in an order that differs between processes.
    return bytes(save(stored, metadata={kind: json.dumps(description, sort_keys=True, allow_nan=False)}))


def unpack_described(data: bytes, kind: str) -> tuple[dict[str, Tensor], object]:
    """Unpack the bytes of `pack_described` for ``kind``.

    Raises:
        ModelFormatRefused: the bytes are not safetensors, or have no description under ``kind``.
    """
    try:
        # The library checks the header against the bytes before it is read here.
        tensors = load(data)
    except SafetensorError as error:
        raise ModelFormatRefused(
            f"the {len(data)} bytes of the {kind} are not safetensors: {error}"
        ) from error
    header = json.loads(_header(data))
    try:
        return tensors, json.loads(header["__metadata__"][kind])
    except (KeyError, ValueError) as error:
        names = ", ".join(map(repr, tensors)) or "no tensor"
        raise ModelFormatRefused(
            f"the {len(data)} bytes are safetensors of {names:.200} and do not describe a {kind}"
            f"{_PUBLISHED if kind == TOKEN_KIND else ''}"
        ) from error


def is_described(data: bytes) -> bool:
    """Whether bytes are safetensors that name themselves a token bundle."""
    return is_safetensors(data) and f'"{TOKEN_KIND}"'.encode() in _header(data)


def is_safetensors(data: bytes) -> bool:
    """Whether bytes begin as safetensors do: with the length of a header, which is JSON."""
    length = int.from_bytes(data[:_LENGTH], "little")
    return data[_LENGTH : _LENGTH + 1] == b"{" and length <= len(data) - _LENGTH


def _header(data: bytes) -> bytes:
    return data[_LENGTH : _LENGTH + int.from_bytes(data[:_LENGTH], "little")]


@dataclass(frozen=True)
class TokenBundle:
    """The token of one class: vectors (k, D) in float32 and their description."""

    vectors: Tensor
    description: TokenDescription

    def require_fit(self, model: ModelIdentity, width: int) -> None:
        """Refuse a token that was learned for other weights than ``model``, with a text encoder of ``width``.

        Another revision of the same model passes, because the digest changes with any file of the folder.

        Raises:
            InvalidRequest: the widths or the models' names differ.
        """
        own = self.description
        if own.width != width:
            raise InvalidRequest(
                f"the token of {own.class_name!r} has width {own.width}, for the text encoder of "
                f"{own.model.id!r}; the text encoder of {model.id!r} has width {width}"
            )
        # An equal width is not enough, because each text encoder has its own table.
        if own.model.id != model.id:
            raise InvalidRequest(
                f"the token of {own.class_name!r} was learned for {own.model.id!r}, not for {model.id!r}; "
                "learn it for this model"
            )


def pack_bundle(bundle: TokenBundle) -> bytes:
    """Pack a bundle; equal bundles give equal bytes."""
    vectors = bundle.vectors.to(torch.float32)
    return pack_described({VECTORS: vectors}, TOKEN_KIND, bundle.description.model_dump(mode="json"))


def unpack_bundle(data: bytes) -> TokenBundle:
    """Unpack a bundle.

    Raises:
        ModelFormatRefused: the bytes are not safetensors or not a bundle, the version is another one, or the
            vectors do not fit the description or are not finite.
    """
    tensors, described = unpack_described(data, TOKEN_KIND)
    try:
        description = TokenDescription.model_validate(described)
    except ValidationError as error:
        raise ModelFormatRefused(f"the token bundle's description is invalid: {in_words(error)}") from error
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
    """The training state of a class, its loss at every step so far, and its unreadable images."""

    state: Learning
    losses: tuple[float, ...]
    dropped: tuple[DroppedImage, ...]


def pack_checkpoint(checkpoint: Checkpoint, recipe: Recipe) -> bytes:
    """Pack a checkpoint; equal checkpoints give equal bytes."""
    state = checkpoint.state
    tensors = {
        "vectors": state.vectors,
        "first": state.first,
        "second": state.second,
        "losses": torch.tensor(checkpoint.losses, dtype=torch.float64),
    }
    dropped = [each.model_dump(mode="json") for each in checkpoint.dropped]
    described = {"format": CHECKPOINT_FORMAT, "recipe": dict(recipe), "step": state.step, "dropped": dropped}
    return pack_described(tensors, CHECKPOINT_KIND, described)


def unpack_checkpoint(data: bytes, recipe: Recipe, like: Tensor) -> Checkpoint:
    """Unpack the checkpoint of a training by ``recipe``, with vectors of the type and device of ``like``.

    Raises:
        InvalidRequest: it belongs to another training; the error names the difference.
        ModelFormatRefused: it is not a checkpoint of this version.
    """
    tensors, described = unpack_described(data, CHECKPOINT_KIND)
    if not isinstance(described, dict) or described.get("format") != CHECKPOINT_FORMAT:
        raise ModelFormatRefused(
            f"the checkpoint does not have version {CHECKPOINT_FORMAT}; learn the token again"
        )
    other = described["recipe"]
    differing = [name for name, wanted in recipe.items() if other.get(name) != wanted]
    if differing:
        name = differing[0]
        raise InvalidRequest(
            f"the checkpoint belongs to another training: its {name} is {other.get(name)!r}, not "
            f"{recipe[name]!r}; send its own request, or no checkpoint"
        )
    vectors, first, second = (tensors[name].to(like) for name in ("vectors", "first", "second"))
    dropped = tuple(DroppedImage.model_validate(each) for each in described["dropped"])
    return Checkpoint(
        Learning(vectors, first, second, described["step"]), tuple(tensors["losses"].tolist()), dropped
    )
