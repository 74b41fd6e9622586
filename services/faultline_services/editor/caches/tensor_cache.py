"""Named tensors in the blob store, as safetensors bytes under a key of all their inputs."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.errors import ArtifactCorrupt, ArtifactMissing

Tensors = dict[str, Tensor]


class TensorCache:
    """Tensors of one ``kind``, remembered for one set of weights at one precision.

    ``version`` is raised when equal inputs come out differently than before.
    """

    def __init__(
        self, store: BlobStore, kind: str, version: int, model: dict[str, object], precision: str
    ) -> None:
        self._store, self._kind = store, kind
        self._inputs: dict[str, object] = {"format": version, "model": model | {"precision": precision}}

    def find(self, **inputs: object) -> Tensors | None:
        """Return what equal inputs gave, unless it is gone or damaged: then it is made again."""
        ref = self._store.recall(self._kind, self._key(inputs))
        try:
            return None if ref is None else load(self._store.get(ref))
        except (ArtifactCorrupt, ArtifactMissing, SafetensorError):
            # It may expire between the two look-ups, and must not fail the items that share the call.
            return None

    def keep(self, tensors: Tensors, **inputs: object) -> None:
        """Remember what ``inputs`` gave."""
        stored = {name: tensor.to(torch.device("cpu")).contiguous() for name, tensor in tensors.items()}
        self._store.remember(self._kind, self._key(inputs), self._store.put(save(stored)))

    def _key(self, inputs: dict[str, object]) -> str:
        return cache_key(**self._inputs, **inputs)
