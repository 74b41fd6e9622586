"""Captions as the text encoder reads them; one that does not fit is refused, never cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from faultline_core.editing.prompt_alignment import TokenizedPrompt
from faultline_core.errors import InvalidRequest, PromptTooLong

if TYPE_CHECKING:
    from transformers import CLIPTextModel, PreTrainedTokenizerBase


class PromptEncoder:
    """Tokenizer and text encoder of the pipeline."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, text_encoder: CLIPTextModel) -> None:
        self._tokenizer = tokenizer
        self._text_encoder = text_encoder.eval().requires_grad_(requires_grad=False)
        positions = int(text_encoder.config.max_position_embeddings)
        self.length = min(int(tokenizer.model_max_length), positions)
        """Most tokens of a prompt, marks of beginning and end included."""

    def count_tokens(self, text: str) -> int:
        """Number of tokens of ``text``, marks of beginning and end included."""
        return len(self._tokenized(text).ids)

    def tokenize(self, text: str) -> TokenizedPrompt:
        """Split ``text`` into tokens that know their word.

        Raises:
            InvalidRequest: it holds a mark of the tokenizer's own, or a word that it does not know.
            PromptTooLong: it has more tokens than the text encoder reads.
        """
        prompt = self._tokenized(text)
        if len(prompt.ids) > self.length:
            raise PromptTooLong(
                f"{text!r} has {len(prompt.ids)} tokens; the text encoder reads {self.length}"
            )
        # CLIP pools at the first mark of the end: what follows it would be ignored without a word.
        if not set(self._tokenizer.all_special_ids).isdisjoint(prompt.ids[1:-1]):
            raise InvalidRequest(f"{text!r} holds what the text encoder's tokenizer does not read as words")
        return prompt

    def _tokenized(self, text: str) -> TokenizedPrompt:
        # transformers warns of the lengths that we refuse ourselves.
        encoding = self._tokenizer(text, truncation=False, verbose=False)
        return TokenizedPrompt(tuple(encoding["input_ids"]), tuple(encoding.word_ids(0)))

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """Embed prompts into (N, length, D); equal texts are embedded once."""
        distinct = list(dict.fromkeys(texts))
        rows = [self._padded(self.tokenize(text)) for text in distinct]
        ids = torch.tensor(rows, device=self._text_encoder.device)
        # No mask on the padding: Stable Diffusion learned to attend to it.
        embedded: Tensor = self._text_encoder(ids)[0]
        return embedded[[distinct.index(text) for text in texts]]

    def _padded(self, prompt: TokenizedPrompt) -> list[int]:
        return [*prompt.ids, *[self._tokenizer.pad_token_id] * (self.length - len(prompt.ids))]
