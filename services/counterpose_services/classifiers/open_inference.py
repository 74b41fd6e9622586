"""A client of the Open Inference Protocol v2 over JSON that checks every answer."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeVar

import httpx
import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import BaseModel, Field, ValidationError

from counterpose_core.errors import BackendError, BackendUnavailable, BadBackendOutput, FunctionGone
from counterpose_core.images.codecs import Pixels
from counterpose_services.models.cached_forward import Floats
from counterpose_services.outbound.calls import AnswerLimits, BoundedCalls

LARGEST_SIDE = 1024
MOST_NUMBERS = 12 * 2**20
"""Of one call whose images keep their sizes: 48 MB as JSON."""
FLOATS = ("FP16", "BF16", "FP32", "FP64")
LONGEST_MESSAGE = 300
LONGEST_ANSWER = 10_000
"""Bytes of an answer that are searched for a message."""
SETTINGS = "COUNTERPOSE_SERVICES_OIP"
# Remote models do not describe their preprocessing; nearly all were trained with these values.
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)

Prepared = npt.NDArray[Any]
"""One image in the remote model's input format, without the batch axis."""


OPEN = -1
"""A size that the model leaves to the caller."""


class TensorSpec(BaseModel):
    """A tensor in a model's metadata; a size of -1 is open."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] = {}


class ModelMetadata(BaseModel):
    """The answer of ``GET /v2/models/<name>``."""

    name: str
    versions: list[str] = []
    platform: str = ""
    inputs: list[TensorSpec] = Field(min_length=1, max_length=1)
    outputs: list[TensorSpec] = Field(min_length=1)
    parameters: dict[str, Any] = {}

    @property
    def labels(self) -> list[str] | None:
        """The class names in the head's order, if the model lists them."""
        labels = self.parameters.get("labels", self.outputs[0].parameters.get("labels"))
        if isinstance(labels, list) and labels and all(isinstance(name, str) for name in labels):
            return labels
        return None


class Row(NamedTuple):
    """The numbers for one image, or the server's error message for it."""

    numbers: Floats
    error: str | None = None


class _Output(BaseModel):
    name: str
    datatype: str = "FP32"
    shape: list[int]
    data: list[Any]
    parameters: dict[str, Any] = {}

    def error_of(self, index: int) -> str | None:
        """The server's error for one image: the entry for its index in the parameter ``errors``."""
        errors = self.parameters.get("errors")
        message = errors.get(str(index)) if isinstance(errors, dict) else None
        return message[:LONGEST_MESSAGE] if isinstance(message, str) else None


class _Answer(BaseModel):
    outputs: list[_Output] = Field(min_length=1)


Body = TypeVar("Body", bound=BaseModel)


class OpenInference:
    """One remote model; errors call it ``name``, by default its address."""

    def __init__(
        self, url: str, client: httpx.Client, limits: AnswerLimits | None = None, *, name: str | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._name = name or self._url
        self._calls = BoundedCalls(client, limits or AnswerLimits(), name=self._name, prefix=SETTINGS)
        self.metadata = self._read("GET", self._url, None, ModelMetadata)
        self._layout, self._height, self._width = self._image_layout()

    @property
    def resolution(self) -> int | None:
        """The shorter side of the model's input, in pixels; None if it takes images of any size."""
        return None if self._height == OPEN else min(self._height, self._width)

    def prepare(self, pixels: Pixels) -> Prepared:
        """Resize and, for float inputs, normalise an image; a model that takes any size resizes by itself."""
        image = self._sized(pixels)
        if self._datatype != "UINT8":
            image = (image.astype(np.float32) / 255.0 - IMAGENET_MEAN) / IMAGENET_STD
        return np.transpose(image, (2, 0, 1)) if self._layout == "channels-first" else image

    def _sized(self, pixels: Pixels) -> npt.NDArray[Any]:
        side = (self._width, self._height)
        if self._height == OPEN:
            height, width = pixels.shape[:2]
            if max(height, width) <= LARGEST_SIDE:
                return pixels
            scale = LARGEST_SIDE / max(height, width)
            side = max(round(width * scale), 1), max(round(height * scale), 1)
        return np.asarray(Image.fromarray(pixels).resize(side, Image.Resampling.BICUBIC))

    def infer(self, images: list[Prepared]) -> list[Row]:
        """Return one row of the first output for each image; images of one size share calls."""
        rows: dict[int, Row] = {}
        for places in _calls(images) if self._height == OPEN else [list(range(len(images)))]:
            for part in self._parts(places):
                rows.update(zip(part, self._infer([images[place] for place in part]), strict=True))
        return [rows[place] for place in range(len(images))]

    def _parts(self, places: list[int]) -> list[list[int]]:
        """Cut a call to the batch that the model takes."""
        size = self._fixed_batch or len(places)
        return [places[start : start + size] for start in range(0, len(places), size)]

    @property
    def _fixed_batch(self) -> int | None:
        batch = self.metadata.inputs[0].shape[0]
        return batch if batch > 0 else None

    def _infer(self, images: list[Prepared]) -> list[Row]:
        n = len(images)
        # A fixed batch is filled with the last image.
        batch = np.stack([*images, *images[-1:] * ((self._fixed_batch or n) - n)])
        wanted = self.metadata.inputs[0]
        tensor = {
            "name": wanted.name,
            "datatype": wanted.datatype,
            "shape": list(batch.shape),
            "data": batch.ravel().tolist(),
        }
        answer = self._read("POST", f"{self._url}/infer", {"inputs": [tensor]}, _Answer)
        return self._rows(answer.outputs[0], len(batch))[:n]

    @property
    def _datatype(self) -> str:
        return self.metadata.inputs[0].datatype

    def _image_layout(self) -> tuple[Literal["channels-first", "channels-last"], int, int]:
        shape = self.metadata.inputs[0].shape
        known = len(shape) == 4 and self._datatype in ("FP32", "UINT8")
        if known and shape[1:] == [OPEN, OPEN, 3] and self._datatype == "UINT8":
            return "channels-last", OPEN, OPEN
        if known and shape[1] == 3 and all(0 < side <= LARGEST_SIDE for side in shape[2:]):
            return "channels-first", shape[2], shape[3]
        if known and shape[3] == 3 and all(0 < side <= LARGEST_SIDE for side in shape[1:3]):
            return "channels-last", shape[1], shape[2]
        raise BadBackendOutput(
            f"the input of {self._name!r} is {self._datatype} {shape}, which is not a batch of images"
        )

    def _rows(self, output: _Output, n: int) -> list[Row]:
        # Integers are predicted classes or quantised scores: as probabilities they would be silently wrong.
        if output.datatype not in FLOATS:
            raise BadBackendOutput(f"{self._name!r} returned {output.datatype!r}, not floating-point scores")
        try:
            # Values that overflow become infinite, and each infinite row is refused.
            with np.errstate(over="ignore"):
                values = np.array(output.data, dtype=np.float32).ravel()
        except (TypeError, ValueError, OverflowError) as error:
            raise BadBackendOutput(f"{self._name!r} returned values that are not numbers") from error
        if len(output.shape) != 2 or output.shape[0] != n or output.shape[1] < 1:
            raise BadBackendOutput(f"{self._name!r} returned the shape {output.shape} for {n} images")
        if values.size != n * output.shape[1]:
            raise BadBackendOutput(
                f"{self._name!r} returned {values.size} numbers for the shape {output.shape}"
            )
        return [Row(row, output.error_of(index)) for index, row in enumerate(values.reshape(n, -1))]

    def _read(self, method: str, url: str, body: dict[str, Any] | None, kind: type[Body]) -> Body:
        answer = self._calls.send(method, url, body)
        if answer.status >= 500:
            raise BackendUnavailable(
                f"{self._name!r} returned status {answer.status}{_words(answer.content)}"
            )
        if answer.status != 200:
            raise BadBackendOutput(
                f"{self._name!r} returned status {answer.status}, not 200{_words(answer.content)}"
            )
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise BadBackendOutput(
                f"the answer of {self._name!r} does not follow the Open Inference Protocol"
            ) from error


def _words(content: bytes) -> str:
    """Return a server's own words about its refusal, for the end of a sentence."""
    text = content[:LONGEST_ANSWER].decode(errors="replace")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = text
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("error", "detail", "message") if answer.get(name)), "")
    said = " ".join(str(answer).split())[:LONGEST_MESSAGE]
    # Others answer with a page for a browser.
    return f": {said}" if said.isprintable() and said and not said.startswith("<") else ""


class FunctionInference(OpenInference):
    """A function of a caller's program: where it does not answer, the program has ended."""

    def infer(self, images: list[Prepared]) -> list[Row]:
        """Return one row for each image.

        Raises:
            FunctionGone: it answers no more, not even what it is.
        """
        try:
            return super().infer(images)
        except BackendUnavailable:
            try:
                self._read("GET", self._url, None, ModelMetadata)
            except BackendError:
                raise no_function(self._name) from None
            # It was a single connection that broke.
            raise


def no_function(name: str) -> FunctionGone:
    """Return the error that no function answers by this name."""
    return FunctionGone(f"no function answers for {name!r} at its address; check that its program still runs")


def _calls(images: list[Prepared]) -> list[list[int]]:
    """Group the places of images by size, as many to a call as `MOST_NUMBERS` allows."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for place, image in enumerate(images):
        by_shape.setdefault(image.shape, []).append(place)
    calls = []
    for shape, places in by_shape.items():
        most = max(MOST_NUMBERS // int(np.prod(shape)), 1)
        calls += [places[start : start + most] for start in range(0, len(places), most)]
    return calls
