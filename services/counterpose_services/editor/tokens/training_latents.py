"""Latents of a token's training images: each image and its mirror image are encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.editing.denoiser import Cancellation, raise_if_cancelled
from counterpose_core.errors import CounterposeError, ResourceExhausted
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.types import BlobRef, Cost
from counterpose_services.batching.batch_size import BatchSizers
from counterpose_services.editor.caches import TensorCache
from counterpose_services.editor.latent_codec import centre_crop
from counterpose_services.editor.pipeline import Pipeline

CACHE_KIND = "training-latents"
CACHE_FORMAT = 1
"""To be increased when equal images give other latents than before."""

Shown = tuple[BlobRef, bool]
"""An image by its digest, and whether it is mirrored."""


class TrainingLatents:
    """Encodes only the images of a link, which are a small part of a large class."""

    def __init__(self, pipeline: Pipeline, store: BlobStore, sizers: BatchSizers) -> None:
        self._pipeline, self._store, self._sizers = pipeline, store, sizers
        model: dict[str, object] = {
            "revision": pipeline.identity.revision,
            "resolution": pipeline.codec.resolution,
        }
        # The autoencoder's precision, which may differ from the denoiser's.
        precision = str(pipeline.null.dtype).removeprefix("torch.")
        self._cache = TensorCache(store, CACHE_KIND, CACHE_FORMAT, model, precision)
        self._known: dict[Shown, Tensor] = {}

    def unreadable(
        self, images: Iterable[BlobRef], cancelled: Cancellation
    ) -> dict[BlobRef, CounterposeError]:
        """Decode every image and return the errors of those that cannot be read."""
        found = {}
        for image in dict.fromkeys(images):
            raise_if_cancelled(cancelled)
            try:
                decode_image(self._store.get(image))
            except CounterposeError as error:
                found[image] = error
        return found

    def prepare(self, wanted: Iterable[Shown], cancelled: Cancellation) -> Cost:
        """Find or encode images, and return the cost of the encoding.

        Raises:
            ArtifactMissing, ArtifactCorrupt: an image can no longer be read.
            ResourceExhausted: not even one image fits in memory.
        """
        missing = [shown for shown in dict.fromkeys(wanted) if not self._find(shown)]

        def work(batch: Sequence[Shown]) -> None:
            raise_if_cancelled(cancelled)
            latents = self._pipeline.codec.encode([self._image(shown) for shown in batch]).cpu()
            for shown, each in zip(batch, latents, strict=True):
                self._known[shown] = each
                self._cache.keep({"latents": each}, image=shown[0], mirrored=shown[1])

        if self._sizers.of("encode").run(missing, work).too_large:
            raise ResourceExhausted(
                "out of memory while encoding a single image; free memory or use a smaller model"
            )
        return self._pipeline.flops.encoding(len(missing))

    def of(self, shown: Shown) -> Tensor:
        """Return the latents (C, h, w) of an image that was prepared."""
        return self._known[shown].to(self._pipeline.device)

    def _find(self, shown: Shown) -> bool:
        if shown not in self._known:
            tensors = self._cache.find(image=shown[0], mirrored=shown[1])
            if tensors is None:
                return False
            self._known[shown] = tensors["latents"]
        return True

    def _image(self, shown: Shown) -> Pixels:
        image, mirrored = shown
        pixels = centre_crop(decode_image(self._store.get(image)), self._pipeline.codec.resolution)
        # Mirrors pixels, because the mirrored latents of an image are not the latents of the mirrored image.
        return np.ascontiguousarray(pixels[:, ::-1]) if mirrored else pixels
