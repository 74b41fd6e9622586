"""The scorer's CLIP as a model of the Open Inference Protocol v2: images and texts in, their cosines out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from counterpose_core.errors import InvalidRequest, UnknownModel
from counterpose_services.open_inference.images import IMAGES, held, values_of
from counterpose_services.open_inference.requests import ModelMetadata
from counterpose_services.open_inference.tensors import InputTensor, OutputTensor, TensorSpec, texts_of

CLIP = "clip"
MOST_TEXTS = 256
TEXTS = TensorSpec(name="texts", datatype="BYTES", shape=[-1])
IMAGE_TEXT = TensorSpec(name="image_text", datatype="FP32", shape=[-1, -1])
IMAGE_IMAGE = TensorSpec(name="image_image", datatype="FP32", shape=[-1, -1])


class SimilarityModel:
    """One model, ``clip``: the cosine of each image with each text, and of each image with each image."""

    def __init__(
        self,
        *,
        embed_images: Callable[[EmbedImagesRequest], Awaitable[EmbedResponse]],
        embed_texts: Callable[[EmbedTextsRequest], Awaitable[EmbedResponse]],
        identity: ModelIdentity,
        store: Callable[[], BlobStore],
    ) -> None:
        self._embed_images, self._embed_texts = embed_images, embed_texts
        self._identity, self._store = identity, store

    async def describe(self, name: str) -> ModelMetadata:
        """Return the metadata of ``clip``.

        Raises:
            UnknownModel: another model is asked for.
        """
        if name != CLIP:
            raise UnknownModel(f"there is no model {name[:100]!r}; the scorer has {CLIP!r}")
        return ModelMetadata(
            name=CLIP,
            platform="counterpose",
            inputs=[IMAGES, TEXTS],
            outputs=[IMAGE_TEXT, IMAGE_IMAGE],
            parameters={"weights": self._identity.id, "revision": self._identity.revision},
        )

    async def infer(self, name: str, inputs: Mapping[str, InputTensor]) -> Sequence[OutputTensor]:
        """Return ``image_text`` (images, texts) and ``image_image`` (images, images), cosines in [-1, 1]."""
        texts = texts_of(inputs[TEXTS.name], MOST_TEXTS)
        try:
            asked = EmbedTextsRequest(texts=texts)
        except ValueError as error:
            raise InvalidRequest(
                f"the input {TEXTS.name!r} has an empty text, or one that is too long"
            ) from error
        refs = await asyncio.to_thread(held, self._store(), inputs[IMAGES.name])
        seen, read = await asyncio.gather(
            self._embed_images(EmbedImagesRequest(images=refs)), self._embed_texts(asked)
        )
        images = np.asarray([one.vector for one in values_of(seen.outcomes)], dtype=np.float32)
        words = np.asarray([one.vector for one in values_of(read.outcomes, TEXTS.name)], dtype=np.float32)
        return [
            OutputTensor(IMAGE_TEXT.name, images @ words.T),
            OutputTensor(IMAGE_IMAGE.name, images @ images.T),
        ]
