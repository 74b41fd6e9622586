"""The input that every served model shares: images, which the store holds while they are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.errors import error_for
from counterpose_services.open_inference.tensors import InputTensor, TensorSpec, images_of

Value = TypeVar("Value")

IMAGES = TensorSpec(
    name="images",
    datatype="UINT8",
    shape=[-1, -1, -1, 3],
    parameters={"also": "BYTES [-1] of PNG, JPEG or WebP files, in JSON as Base64"},
)
"""Red, green, blue; each model resizes and normalises by itself."""


def held(store: BlobStore, tensor: InputTensor) -> list[str]:
    """Put each image into the store for as long as its budget allows, and return their references."""
    return [store.put_passing(data) for data in images_of(tensor)]


def values_of(outcomes: Sequence[Outcome[Value]], tensor: str = IMAGES.name) -> list[Value]:
    """Return the values of the input ``tensor``: the protocol has no place for one that failed alone.

    Raises:
        CounterposeError: the error of the first that failed, named by its place.
    """
    for index, outcome in enumerate(outcomes):
        if (problem := outcome.problem) is not None:
            raise error_for(problem.code, f"value {index} of the input {tensor!r}: {problem.detail}")
    return [outcome.unwrap() for outcome in outcomes]
