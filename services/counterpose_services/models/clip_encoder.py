"""Both towers of an open_clip model, read from a local folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import open_clip
import torch
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from torch import Tensor

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import ModelFormatRefused, PromptTooLong
from counterpose_core.image_recipes import Read, shown_image
from counterpose_core.images.codecs import Pixels
from counterpose_services.models.cached_forward import Arrays, CachedForward
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.weights import CLIP_CONFIGURATION


class ClipEncoder:
    """Embeds images and texts in one space; vectors are not of unit length."""

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        location = f"local-dir:{folder}"
        self._device = torch.device(device)
        self._model = _loaded(location, folder).eval().to(self._device)
        self._tokenize = open_clip.get_tokenizer(location)
        self._preprocess: Callable[[Image.Image], Tensor] = image_transform_v2(
            PreprocessCfg(**self._model.visual.preprocess_cfg), is_train=False
        )
        self.revision = folder_revision(folder)

    @property
    def size_bytes(self) -> int:
        """Memory of its weights."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @property
    def context_length(self) -> int:
        """The largest number of tokens of a text, including the start and end tokens."""
        return int(self._model.context_length)

    @property
    def logit_scale(self) -> float:
        """The factor of cosines before the softmax of a zero-shot classifier."""
        return float(self._model.logit_scale.detach().exp())

    def image_pass(
        self, store: BlobStore, batch: int, shown: Callable[[str, Read], Pixels] = shown_image
    ) -> CachedForward[Tensor]:
        """Return the pass that computes ``vector`` for each image of the store, or of a recipe."""
        return CachedForward(
            store,
            "clip-image",
            read=lambda ref: self.read_image(shown(ref, store.get)),
            forward=self.embed_images,
            inputs={"model": self.revision},
            batch=batch,
        )

    def text_pass(self, store: BlobStore, batch: int) -> CachedForward[Tensor]:
        """Return the pass that computes ``vector`` for each text."""
        return CachedForward(
            store,
            "clip-text",
            read=self.read_text,
            forward=self.embed_texts,
            inputs={"model": self.revision},
            batch=batch,
        )

    def read_image(self, pixels: Pixels) -> Tensor:
        """Return the image tower's input, float (3, H, W)."""
        return self._preprocess(Image.fromarray(pixels))

    def read_text(self, text: str) -> Tensor:
        """Return token ids, int64 (L,).

        Raises:
            PromptTooLong: the text would be truncated.
        """
        # One token more than the tower reads: a text that fills it would be truncated silently.
        row: Tensor = self._tokenize([text], context_length=self.context_length + 1)[0]
        # SigLIP's tokenizer also ends a text, shortened or not, with what it pads with.
        if any(int(mark) != self._pad for mark in row[-2 if self._ends_as_padded else -1 :]):
            raise PromptTooLong(
                f"{text!r} has more tokens than the {self.context_length} that CLIP reads; shorten it"
            )
        return row[:-1]

    @property
    def _pad(self) -> int:
        # open_clip's own tokenizer pads with 0 but has no attribute for it, unlike those of transformers.
        return int(getattr(getattr(self._tokenize, "tokenizer", None), "pad_token_id", 0) or 0)

    @property
    def _ends_as_padded(self) -> bool:
        end = getattr(getattr(self._tokenize, "tokenizer", None), "eos_token_id", None)
        return end is not None and int(end) == self._pad

    @torch.inference_mode()
    def embed_images(self, images: list[Tensor]) -> list[Arrays]:
        """Return ``vector`` (d,) of each image."""
        return _rows(self._model.encode_image(torch.stack(images).to(self._device)))

    @torch.inference_mode()
    def embed_texts(self, texts: list[Tensor]) -> list[Arrays]:
        """Return ``vector`` (d,) of each text."""
        return _rows(self._model.encode_text(torch.stack(texts).to(self._device)))


def _loaded(location: str, folder: Path) -> Any:
    try:
        # Of all files in a folder, open_clip prefers the two that `clip_folder` checks. Without
        # `require_pretrained`, it only warns about missing weights and uses random ones.
        return open_clip.create_model(location, pretrained_text=False, require_pretrained=True)
    except RuntimeError as error:
        if "state_dict" not in str(error):
            raise
        told = str(error).strip().splitlines()
        why = told[1].strip().rstrip(".") if len(told) > 1 else told[0]
        raise ModelFormatRefused(
            f"the weights in {str(folder)!r} do not fit its {CLIP_CONFIGURATION}: {why[:200]}; take both "
            "from the same checkpoint"
        ) from error


def _rows(vectors: Tensor) -> list[Arrays]:
    values = vectors.float().cpu().numpy()
    return [{"vector": np.ascontiguousarray(row)} for row in values]
