"""Prompts as Stable Diffusion XL reads them: two text encoders side by side, and a pooled embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from counterpose_core.editing.prompt_alignment import TokenizedPrompt
from counterpose_services.editor.prompts import PromptEncoder, SlotReader
from counterpose_services.editor.unet.added_conditions import with_pooled

if TYPE_CHECKING:
    from transformers import CLIPTextModel, CLIPTextModelWithProjection, PreTrainedTokenizerBase

BEFORE_LAST = -2
"""The layer whose output SDXL reads, without the encoder's last norm (Podell et al. 2023, section 2.1)."""


class LayerBeforeLast(nn.Module):
    """A CLIP text encoder of which the layer before the last is read, and the pooled projection if any."""

    def __init__(self, encoder: CLIPTextModel | CLIPTextModelWithProjection) -> None:
        super().__init__()
        self._encoder = encoder
        self._projection: nn.Module | None = getattr(encoder, "text_projection", None)
        self.config = encoder.config

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        found: torch.device = self._encoder.device
        return found

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the table of the vocabulary."""
        table: nn.Embedding = self._encoder.get_input_embeddings()
        return table

    @property
    def pools(self) -> bool:
        """Whether it projects the state at the end token."""
        return self._projection is not None

    def forward(self, ids: Tensor, ends: Tensor | None = None) -> tuple[Tensor]:
        """Embed ids (B, L) into (B, L, D); pooled at the positions ``ends`` (B,), into (B, L + 1, D)."""
        output: Any = self._encoder(ids, output_hidden_states=True)
        words: Tensor = output.hidden_states[BEFORE_LAST]
        if self._projection is None:
            return (words,)
        assert ends is not None
        # By position: the ids of prompts with slots are renumbered, and the encoder's own pooling goes by id.
        rows = torch.arange(len(ids), device=ids.device)
        return (with_pooled(words, self._projection(output.last_hidden_state[rows, ends])),)


class PairedSlotReader:
    """Two `SlotReader` of the same prompts, for vectors of the first encoder followed by those of the second.

    ``first_width`` is the width of the first encoder's vectors.
    """

    def __init__(self, first: SlotReader, second: SlotReader, first_width: int) -> None:
        self._first, self._second, self._first_width = first, second, first_width

    def __call__(self, templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed one prompt per row, with its owner's vectors from (N, k, D), into (R, L + 1, D)."""
        first, second = vectors[..., : self._first_width], vectors[..., self._first_width :]
        return _joined(self._first(templates, owners, first), self._second(templates, owners, second))


class PairedPromptEncoder:
    """A `PromptEncoder` of two text encoders, whose outputs are joined token by token (section 2.1).

    A learned vector holds one of each encoder's table, so one token has the width of both together. Both
    encoders get the ids of the first tokenizer, and each its own padding: attention is edited by token, so a
    token must be the same words in both.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        first: CLIPTextModel,
        second: CLIPTextModelWithProjection,
        second_pad: int,
    ) -> None:
        self._first = PromptEncoder(tokenizer, LayerBeforeLast(first))
        self._second = PromptEncoder(tokenizer, LayerBeforeLast(second), second_pad)
        self.length = min(self._first.length, self._second.length)
        """The largest number of tokens of a prompt, including the start and end tokens."""
        self.width = self._first.width + self._second.width
        """The width of the vectors of both tables together."""

    def tokenize(self, text: str, vectors: int = 0) -> TokenizedPrompt:
        """Split ``text`` as `PromptEncoder.tokenize` does."""
        return self._first.tokenize(text, vectors)

    def mean_embedding(self, words: str) -> Tensor:
        """Return the mean (D) of both tables' rows for ``words``; raises as `PromptEncoder` does."""
        return torch.cat([self._first.mean_embedding(words), self._second.mean_embedding(words)])

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Embed prompts into (N, length + 1, D); the last row has the pooled embedding."""
        return _joined(self._first.encode(texts), self._second.encode(texts))

    def encode_learned(self, texts: Sequence[str], tokens: Sequence[Tensor]) -> Tensor:
        """Embed prompts, each with its own vectors (k, D) in its slot, into (N, length + 1, D)."""
        # Equal tokens are one object, by which the encoders find prompts to embed once.
        distinct, width = {id(token): token for token in tokens}, self._first.width
        first = {name: token[:, :width] for name, token in distinct.items()}
        second = {name: token[:, width:] for name, token in distinct.items()}
        return _joined(
            self._first.encode_learned(texts, [first[id(token)] for token in tokens]),
            self._second.encode_learned(texts, [second[id(token)] for token in tokens]),
        )

    def slot_reader(self, prompts: Sequence[tuple[str, int]]) -> PairedSlotReader:
        """Tokenize prompts, each with its number of vectors in its slot; raises as ``tokenize`` does."""
        readers = self._first.slot_reader(prompts), self._second.slot_reader(prompts)
        return PairedSlotReader(*readers, self._first.width)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Join the words of both encoders; the second's last row, the pooled embedding, stays at the end."""
    return torch.cat([nn.functional.pad(first, (0, 0, 0, 1)), second], dim=-1)
