"""A sentence encoder: the mean of the last layer over a text's tokens."""

from __future__ import annotations

from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from transformers import AutoModel

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import PromptTooLong
from counterpose_services.models.cached_forward import Arrays, CachedForward
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.scorer.text_model import load_text_model


class SentenceEncoder:
    """Embeds texts so that similar meanings are close; vectors are not of unit length."""

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        self._model, self._tokenizer = load_text_model(AutoModel, folder, device)
        self._longest = min(
            int(self._tokenizer.model_max_length), int(self._model.config.max_position_embeddings)
        )
        self.revision = folder_revision(folder)

    def text_pass(self, store: BlobStore, batch: int) -> CachedForward[list[int]]:
        """Return the pass that gives ``vector`` of each text."""
        return CachedForward(
            store,
            "sentence",
            read=self.read_text,
            forward=self.embed_texts,
            inputs={"model": self.revision},
            batch=batch,
        )

    def read_text(self, text: str) -> list[int]:
        """Return token ids.

        Raises:
            PromptTooLong: the text would be truncated.
        """
        ids: list[int] = self._tokenizer(text)["input_ids"]
        if len(ids) > self._longest:
            raise PromptTooLong(
                f"{text!r} has {len(ids)} tokens; the sentence encoder reads {self._longest}: shorten it"
            )
        return ids

    @torch.inference_mode()
    def embed_texts(self, texts: list[list[int]]) -> list[Arrays]:
        """Return ``vector`` (d,) of each text."""
        batch = self._tokenizer.pad({"input_ids": texts}, return_tensors="pt").to(self._model.device)
        states = self._model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"][..., None].float()
        # As the published encoders were trained (Reimers and Gurevych 2019, section 3).
        means = ((states * mask).sum(1) / mask.sum(1)).cpu().numpy()
        return [{"vector": row.copy()} for row in means]
