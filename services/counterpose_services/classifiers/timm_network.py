"""A timm network as a classifier under test, with its own preprocessing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as timm does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from timm.data import create_transform, resolve_data_config
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import BadBackendOutput, ModelFormatRefused, UnknownModel
from counterpose_core.failure import in_a_line
from counterpose_services.classifiers.class_map import NO_LABEL_MAP, HeadClasses, LabelMap
from counterpose_services.classifiers.classifier import TRIAL_IMAGE, OverClasses
from counterpose_services.classifiers.preparations import PreparedForward
from counterpose_services.models.cached_forward import Arrays, PassResult
from counterpose_services.models.model_folder import require_readable

FACTORY_ARGUMENTS = {*inspect.signature(timm.create_model).parameters, "num_classes"} - {"kwargs"}
"""Arguments of timm's factory; all others go to the architecture."""


@dataclass(frozen=True)
class Network:
    """A loaded timm network, the classes of its head, and the digest of its files."""

    module: Any
    head: HeadClasses
    identity: ModelIdentity

    @property
    def size_bytes(self) -> int:
        """Memory its weights take."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def create_network(architecture: str, **options: Any) -> Any:
    """Build one of timm's architectures in float32.

    Raises:
        UnknownModel: timm has no such architecture.
        ModelFormatRefused: the options or weights do not fit it.
    """
    if not timm.is_model(architecture):
        raise UnknownModel(f"timm has no architecture {architecture!r}; see timm.list_models()")
    try:
        module = timm.create_model(architecture, **options)
    except (TypeError, ValueError, RuntimeError, OSError, AssertionError) as error:
        raise ModelFormatRefused(f"{architecture!r} cannot be built as configured: {error}") from error
    # In half precision, a head gives equal scores to classes that float32 distinguishes.
    return module.eval().float()


def read_tensors(file: Path, name: str) -> dict[str, Tensor]:
    """Load the weights of the classifier ``name``.

    Raises:
        ModelFormatRefused: the file is not a safetensors file, or a weight is NaN or infinite.
    """
    require_readable(file)
    tensors = load_file(file)
    for key, tensor in tensors.items():
        # One such weight makes every prediction NaN: one error here instead of one per image.
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ModelFormatRefused(f"the tensor {key!r} of {name!r} has numbers that are not finite")
    return tensors


def _preprocessing(network: Network) -> tuple[dict[str, Any], Callable[[Image.Image], Tensor]]:
    try:
        settings = resolve_data_config({}, model=network.module)
        return settings, create_transform(**settings, is_training=False)
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        raise ModelFormatRefused(
            f"timm cannot build the preprocessing of {network.identity.id!r}; check its pretrained_cfg"
        ) from error


class TimmClassifier:
    """Predictions and features of a network, cached by image, weights and preprocessing."""

    def __init__(
        self, network: Network, *, label_map: LabelMap, store: BlobStore, batch: int, device: str
    ) -> None:
        self._device = torch.device(device)
        # On a processor convolutions are up to a quarter faster so, and no network was slower.
        layout = torch.channels_last if self._device.type == "cpu" else torch.preserve_format
        self._module, self._head = network.module.to(self._device, memory_format=layout), network.head
        self._label_map = label_map
        self.identity = network.identity
        self.size_bytes = network.size_bytes
        settings, transform = _preprocessing(network)
        self._try_out(transform)
        self._pass = PreparedForward(
            store,
            prepare=lambda pixels: transform(Image.fromarray(pixels)),
            forward=self._forward,
            inputs={"model": network.identity.revision, "preprocessing": settings},
            batch=batch,
        )

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Select the head's rows of these classes."""
        selection = self._head.selection(classes, {**self._label_map, **label_map})
        return lambda arrays: selection(arrays["probabilities"])

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return ``probabilities`` over the whole head and ``features`` of each image."""
        return self._pass(images, prepared)

    def _try_out(self, transform: Callable[[Image.Image], Tensor]) -> None:
        """Classify one image: some networks take other channels, or give no row of scores."""
        try:
            self._forward([transform(Image.fromarray(TRIAL_IMAGE))])
        except torch.OutOfMemoryError:
            raise
        # Whatever a network does with an image that is not its own.
        except Exception as error:
            raise ModelFormatRefused(
                f"{self.identity.id!r} fails on an image of three channels (RGB): {in_a_line(error)}; check "
                "its configuration"
            ) from error

    @torch.inference_mode()
    def _forward(self, images: list[Tensor]) -> list[Arrays]:
        states = self._module.forward_features(torch.stack(images).to(self._device))
        # Always, because they cost only one more pooling and a later request may need them.
        features = self._module.forward_head(states, pre_logits=True).float().flatten(1).cpu().numpy()
        odds = self._module.forward_head(states).float().softmax(-1).cpu().numpy()
        if odds.shape != (len(images), len(self._head)):
            raise BadBackendOutput(
                f"{self.identity.id!r} returned the shape {odds.shape} for {len(self._head)} classes"
            )
        return [
            {"probabilities": row.copy(), "features": vector.copy()}
            for row, vector in zip(odds, features, strict=True)
        ]
