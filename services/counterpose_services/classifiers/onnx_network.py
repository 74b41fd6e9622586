"""A user's ONNX network as a classifier under test, run by onnxruntime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as states
from PIL import Image
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import BadBackendOutput, ClassMapMismatch, ModelFormatRefused
from counterpose_services.classifiers.class_map import (
    NO_LABEL_MAP,
    HeadClasses,
    LabelMap,
    read_class_map,
    require_several,
)
from counterpose_services.classifiers.classifier import OverClasses
from counterpose_services.classifiers.onnx_description import (
    SUM_TOLERANCE,
    NetworkInput,
    OutputKind,
    kind_of,
    output_kind,
    preprocessing,
)
from counterpose_services.classifiers.onnx_file import ONNX_FILE, OnnxFile, read_onnx
from counterpose_services.classifiers.preparations import PreparedForward
from counterpose_services.classifiers.timm_folder import CLASS_MAP, read_configuration
from counterpose_services.models.cached_forward import Arrays, Floats, PassResult

_logger = logging.getLogger(__name__)

TRIAL_COLOURS = ("grey", "orange", "navy")
"""Of the images by which a network is tried: logits of several do not all add up to 1."""

_CUDA = "CUDAExecutionProvider"

# They have no common base class.
_RUNTIME_ERRORS = tuple(
    kind for kind in vars(states).values() if isinstance(kind, type) and issubclass(kind, Exception)
)


class OnnxClassifier:
    """Predictions of an ONNX network, cached by image, file and preprocessing.

    The folder holds ``model.onnx``, ``class_map.json`` and ``config.json``, which `onnx_description` reads.

    Raises:
        ModelFormatRefused: the file or its description is invalid; the error names the file.
        ClassMapMismatch: the network returns more or fewer numbers than the class map has names.
    """

    def __init__(
        self, folder: Path, name: str, *, label_map: LabelMap, store: BlobStore, batch: int, device: str
    ) -> None:
        self._name, self._label_map = name, label_map
        config = read_configuration(folder)
        self._head: HeadClasses = read_class_map(folder / CLASS_MAP)
        require_several(len(self._head), name)
        declared = output_kind(config, name)
        file = read_onnx(folder, name)
        self._session = _session(file, name, device)
        self._input = _input_of(self._session, name)
        self.identity = ModelIdentity(id=name, revision=file.revision)
        self.size_bytes = file.size_bytes
        settings, transform = preprocessing(config, self._input, name)
        self._kind = self._try_out(transform, declared, file.last_operator)
        self._pass = PreparedForward(
            store,
            prepare=lambda pixels: transform(Image.fromarray(pixels)),
            forward=self._forward,
            inputs={"model": file.revision, "preprocessing": settings, "output": self._kind},
            batch=min(batch, self._input.batch or batch),
        )

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Select the head's rows of these classes."""
        selection = self._head.selection(classes, {**self._label_map, **label_map})
        return lambda arrays: selection(arrays["probabilities"])

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return ``probabilities`` over the whole head for each image."""
        return self._pass(images, prepared)

    def _forward(self, images: list[Tensor]) -> list[Arrays]:
        rows = self._run(images)
        if rows.shape != (len(images), len(self._head)):
            raise BadBackendOutput(f"{self._name!r} returned {rows.shape} for {len(self._head)} classes")
        return [{"probabilities": row.copy()} for row in _probabilities(rows, self._kind, self._name)]

    def _run(self, images: list[Tensor]) -> Floats:
        n = len(images)
        # If the exported graph has a fixed batch, repeat the last image to fill it.
        tensors = [*images, *images[-1:] * ((self._input.batch or n) - n)]
        batch = np.stack([tensor.numpy() for tensor in tensors])
        try:
            rows = self._session.run(None, {self._input.name: batch})[0]
        except _RUNTIME_ERRORS as error:
            raise BadBackendOutput(f"{self._name!r} failed on {n} images: {_reason(error)}") from error
        return cast("Floats", rows[:n] if rows.ndim else rows)

    def _try_out(
        self, transform: Callable[[Image.Image], Tensor], declared: OutputKind | None, last_operator: str
    ) -> OutputKind:
        images = [transform(Image.new("RGB", (64, 64), colour)) for colour in TRIAL_COLOURS]
        n = self._input.batch or len(images)
        parts = [(images * n)[start : start + n] for start in range(0, max(n, len(images)), n)]
        try:
            answers = [self._run(part) for part in parts]
            rows = answers[0]
            if rows.ndim != 2 or len(rows) != n:
                raise BadBackendOutput(f"it returns the shape {rows.shape} for {n} images")
            if rows.shape[1] != len(self._head):
                raise ClassMapMismatch(
                    f"{ONNX_FILE!r} of {self._name!r} returns {rows.shape[1]} numbers per image, "
                    f"but {CLASS_MAP!r} names {len(self._head)} classes"
                )
            rows = np.concatenate(answers)
            kind = kind_of(rows, declared, last_operator, self._name)
            _probabilities(rows, kind, self._name)
        except BadBackendOutput as error:
            raise ModelFormatRefused(
                f"{ONNX_FILE!r} of {self._name!r} is unusable: {error.detail}"
            ) from error
        return kind


def _session(file: OnnxFile, name: str, device: str) -> Any:
    options = onnxruntime.SessionOptions()
    # The same number as torch; by default the runtime would use every core.
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    if file.data:
        names, contents = list(file.data), list(file.data.values())
        options.add_external_initializers_from_files_in_memory(names, contents, list(map(len, contents)))
    try:
        session = onnxruntime.InferenceSession(file.content, options, providers=providers(device))
    except _RUNTIME_ERRORS as error:
        raise ModelFormatRefused(f"{ONNX_FILE!r} of {name!r} cannot be loaded: {_reason(error)}") from error
    # The runtime takes the CPU without a word, too, where its libraries for the GPU are missing.
    if device.startswith("cuda") and _CUDA not in session.get_providers():
        _logger.warning(
            "%r of %r runs on the CPU, not on %r: this onnxruntime cannot use it; install onnxruntime-gpu "
            "instead of onnxruntime",
            ONNX_FILE, name, device,
        )  # fmt: skip
    return session


def providers(device: str) -> list[Any]:
    """Return the execution providers for a torch device: CUDA if requested and built in, then the CPU."""
    kind, _, number = device.partition(":")
    here = onnxruntime.get_available_providers()
    if kind == "cuda" and _CUDA in here:
        return [(_CUDA, {"device_id": int(number or 0)}), "CPUExecutionProvider"]
    return ["CPUExecutionProvider"]


def _reason(error: Exception) -> str:
    # The runtime's message without code, severity and source locations.
    words = str(error).split(" : ")[-1].split()
    said = " ".join(word for word in words if "/" not in word and "::" not in word)
    return said[-300:] or type(error).__name__


def _input_of(session: Any, name: str) -> NetworkInput:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        raise ModelFormatRefused(
            f"{ONNX_FILE!r} of {name!r} has {len(inputs)} inputs and {len(outputs)} outputs, not one of each"
        )
    (taken,), (given,) = inputs, outputs
    shape = list(taken.shape or ())
    if taken.type != "tensor(float)" or len(shape) != 4 or shape[1] != 3:
        raise ModelFormatRefused(
            f"{ONNX_FILE!r} of {name!r} takes {taken.type} {shape}, not float32 images (N, 3, H, W)"
        )
    if given.type != "tensor(float)":
        raise ModelFormatRefused(f"{ONNX_FILE!r} of {name!r} returns {given.type}, not float32")
    batch, _, height, width = (size if isinstance(size, int) and size > 0 else None for size in shape)
    return NetworkInput(taken.name, batch, height, width)


def _probabilities(rows: Floats, kind: OutputKind, name: str) -> Floats:
    if kind == "logits":
        # Subtract the largest, or logits above 88 overflow in float32.
        with np.errstate(invalid="ignore"):
            odds = np.exp(rows - rows.max(axis=1, keepdims=True))
            return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)
    # A row that is not finite later fails its own image alone.
    finite = rows[np.isfinite(rows).all(axis=1)]
    if finite.min(initial=0.0) < -SUM_TOLERANCE or (np.abs(finite.sum(axis=1) - 1.0) > SUM_TOLERANCE).any():
        raise BadBackendOutput(
            f"{name!r} is described as returning probabilities, but its numbers are not probabilities"
        )
    return rows
