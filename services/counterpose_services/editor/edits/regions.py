"""The regions of edits: on the grid of latents, and on the pixels that are put back around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem
from counterpose_core.contract.regions import EditRegion
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import Pixels, decode_image, encode_raw
from counterpose_core.images.masks import WHITE, editable
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import BlobRef, Decoder
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.latent_codec import centre_crop
from counterpose_services.editor.pipeline import Pipeline

HALF = 0.5
"""Share of a position's pixels that must be in the region for its latents to be."""


def pixel_region(pipeline: Pipeline, store: BlobStore, image: BlobRef, region: EditRegion) -> Mask:
    """Return where (side, side) an image, as the editor crops it, may change.

    Raises:
        InvalidRequest: the mask has another size than the image, or nothing is on that side of it.
        ArtifactMissing, ImageUndecodable: there is no such mask or image.
    """
    height, width = decode_image(store.get(image)).shape[:2]
    inside = editable(store.get(region.mask), region.edits, (height, width))
    levels = np.repeat(np.where(inside, WHITE, 0).astype(np.uint8)[..., None], 3, axis=2)
    return centre_crop(levels, pipeline.codec.resolution)[..., 0] >= HALF * WHITE


def latent_region(pipeline: Pipeline, store: BlobStore, image: BlobRef, region: EditRegion) -> Tensor:
    """Return where (h, w) the latents of an image may change.

    Raises:
        InvalidRequest: it is empty: the crop or the grid loses the region.
        InvalidRequest, ArtifactMissing, ImageUndecodable: as `pixel_region`.
    """
    shares = torch.from_numpy(pixel_region(pipeline, store, image, region).astype(np.float32))[None, None]
    grid = torch.nn.functional.adaptive_avg_pool2d(shares, pipeline.latent_shape[1:])[0, 0]
    if not (grid >= HALF).any():
        raise InvalidRequest(
            "the region is empty: no position of the editor's latents lies in it, by half at least, once the "
            "image is cropped; give a larger mask, or an image with its object in the middle"
        )
    return (grid >= HALF).to(pipeline.device)


@dataclass(frozen=True)
class Surroundings:
    """The images of items with a region with nothing changed, by the path of their edits, and their names."""

    regions: Mapping[int, Mask] = field(default_factory=dict)
    pixels: Mapping[int, Pixels] = field(default_factory=dict)
    refs: Mapping[int, BlobRef] = field(default_factory=dict)
    decoded: int = 0

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        store: BlobStore,
        items: Mapping[int, EditItem],
        inverted: Mapping[CaptionedImage, Inverted],
        decoder: Decoder,
    ) -> Surroundings:
        """Decode and store the reconstruction of each image once.

        Args:
            pipeline: has the decoder.
            store: has the masks, and gets the images.
            items: those with a region, by their positions in the request.
            inverted: the inversions of their images.
            decoder: the one of the edits.
        """
        images = list(dict.fromkeys(pipeline.captioned(item) for item in items.values()))
        if not images:
            return cls()
        latents = torch.cat([inverted[image].reconstruction for image in images])
        made = dict(zip(images, pipeline.codec.decode(latents, decoder), strict=True))
        refs = {image: store.put(encode_raw(pixels)) for image, pixels in made.items()}
        for image, ref in refs.items():
            store.note_made([ref], of=image.image)
        return cls(
            {
                index: pixel_region(pipeline, store, item.image, item.region)
                for index, item in items.items()
                if item.region is not None
            },
            {index: made[pipeline.captioned(item)] for index, item in items.items()},
            {index: refs[pipeline.captioned(item)] for index, item in items.items()},
            len(images),
        )

    def around(self, index: int, image: Pixels) -> Pixels:
        """Return an item's edited image with the rest put back: a decoder mixes what lies side by side."""
        if index not in self.regions:
            return image
        return np.where(self.regions[index][..., None], image, self.pixels[index])
