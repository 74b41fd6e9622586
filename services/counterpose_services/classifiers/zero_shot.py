"""Zero-shot classification: the class whose prompt is closest to the image in CLIP's space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import ClassMapMismatch, CounterposeError
from counterpose_core.image_recipes import MadeImages
from counterpose_core.images.clip_metrics import unit
from counterpose_core.text.class_prompts import object_caption
from counterpose_services.classifiers.class_map import NO_LABEL_MAP, LabelMap
from counterpose_services.classifiers.classifier import OverClasses
from counterpose_services.classifiers.preparations import refuse_alternative
from counterpose_services.models.cached_forward import Arrays, Floats, PassResult
from counterpose_services.models.clip_encoder import ClipEncoder


def prompt_of(name: str) -> str:
    """Return the prompt of a class, with the article that fits its first sound."""
    return object_caption(name.replace("_", " ").strip())


class ZeroShotClassifier:
    """Softmax of scaled cosines over the requested classes; features are the unit image embedding.

    So it is of SigLIP, too: its bias is the same for all classes, and its sigmoids, which judge each class
    alone, do not add up to 1.
    """

    def __init__(self, folder: Path, name: str, *, store: BlobStore, batch: int, device: str) -> None:
        self._clip = clip = ClipEncoder(folder, device=device)
        self._store, self._batch = store, batch
        self._scale = clip.logit_scale
        self.size_bytes = clip.size_bytes
        self.identity = ModelIdentity(id=name, revision=clip.revision)
        self._texts = clip.text_pass(store, batch)

    def over(self, classes: Sequence[str], label_map: LabelMap = NO_LABEL_MAP) -> OverClasses:
        """Embed the prompts of these classes; without a head, a label map has nothing to say."""
        try:
            found = [
                outcome.unwrap() for outcome in self._texts([prompt_of(name) for name in classes]).outcomes
            ]
        except CounterposeError as error:
            raise ClassMapMismatch(f"a class name does not make a usable prompt: {error.detail}") from error
        prompts = unit(np.stack([arrays["vector"] for arrays in found]))

        def probabilities(arrays: Arrays) -> Floats:
            logits = self._scale * (prompts @ unit(arrays["vector"]))
            # CLIP's scale is 100: exponentials of raw logits would overflow.
            odds = np.exp(logits - logits.max())
            return np.asarray(odds / odds.sum(), dtype=np.float32)

        return probabilities

    def predict(self, images: Sequence[str], prepared: str | None = None) -> PassResult:
        """Return ``vector`` of each image."""
        refuse_alternative(prepared, self.identity.id)
        made = MadeImages()
        found = self._clip.image_pass(self._store, self._batch, made)(images)
        return found._replace(digests=made.digests)
