"""A learned token as a file: its vectors, and in the header where they come from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import ValidationError
from torch import Tensor

from faultline_core.contract.base import ModelIdentity
from faultline_core.contract.tokens import TOKEN_FORMAT, TokenDescription
from faultline_core.errors import InvalidRequest, ModelFormatRefused
from faultline_services.editor.tokens.described_tensors import pack_described, unpack_described

KIND, VECTORS = "faultline-token", "vectors"


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
    return pack_described({VECTORS: vectors}, KIND, bundle.description.model_dump(mode="json"))


def unpack_bundle(data: bytes) -> TokenBundle:
    """Read a bundle.

    Raises:
        ModelFormatRefused: it is no safetensors or no bundle, of another version, not what it says of itself,
            or not finite.
    """
    tensors, told = unpack_described(data, KIND)
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
