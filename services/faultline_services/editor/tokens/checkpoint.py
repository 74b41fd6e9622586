"""Where the learning of a class stands between two calls: all that the next link needs, in one blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from faultline_core.contract.tokens import DroppedImage
from faultline_core.editing.training_task import Learning
from faultline_core.errors import InvalidRequest, ModelFormatRefused
from faultline_services.editor.tokens.described_tensors import pack_described, unpack_described

KIND = "faultline-token-checkpoint"
CHECKPOINT_FORMAT = 1
"""Raised when equal inputs come to other vectors than before."""

Recipe = Mapping[str, object]
"""Every input that the path of a class hangs on, by name, as JSON has it."""


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
    return pack_described(tensors, KIND, told)


def unpack_checkpoint(data: bytes, recipe: Recipe, like: Tensor) -> Checkpoint:
    """Read the checkpoint of a learning by ``recipe``, whose vectors are ``like`` these.

    Raises:
        InvalidRequest: it belongs to another learning; what differs is named.
        ModelFormatRefused: it is no checkpoint of this version.
    """
    tensors, told = unpack_described(data, KIND)
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
