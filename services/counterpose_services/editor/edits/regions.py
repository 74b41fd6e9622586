"""The regions of edits on the grid of latents."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem
from counterpose_core.images.codecs import decode_image
from counterpose_core.images.masks import WHITE, editable
from counterpose_services.editor.latent_codec import centre_crop
from counterpose_services.editor.pipeline import Pipeline

HALF = 0.5
"""Share of a position's pixels that must be in the region for its latents to be."""


def latent_region(pipeline: Pipeline, store: BlobStore, item: EditItem) -> Tensor | None:
    """Return where (h, w) the latents of an item's image may change, or None for everywhere.

    Raises:
        InvalidRequest: the mask has another size than the image, or the region is empty.
        ArtifactMissing, ImageUndecodable: there is no such mask or image.
    """
    if item.region is None:
        return None
    height, width = decode_image(store.get(item.image)).shape[:2]
    inside = editable(store.get(item.region.mask), item.region.edits, (height, width))
    levels = np.repeat(np.where(inside, WHITE, 0).astype(np.uint8)[..., None], 3, axis=2)
    square = centre_crop(levels, pipeline.codec.resolution)[..., 0]
    shares = torch.from_numpy(square.astype(np.float32) / WHITE)[None, None]
    grid = torch.nn.functional.adaptive_avg_pool2d(shares, pipeline.latent_shape[1:])[0, 0]
    return (grid >= HALF).to(pipeline.device)
