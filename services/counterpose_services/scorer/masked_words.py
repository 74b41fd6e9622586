"""A masked language model that replaces one word of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from counterpose_core.contract.scorer import FilledMask, FillMaskItem
from counterpose_core.errors import BadBackendOutput, InvalidRequest, PromptTooLong
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.scorer.text_model import load_text_model

CANDIDATES = 50
"""Words are drawn from the most probable ones only; less probable ones make no sense."""

_CORE = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_WHOLE_WORD = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]+)*")
_SPACE_MARKS = ("Ġ", "▁")


@dataclass(frozen=True)
class MaskedText:
    """Token ids with one mask, its position, the word that it replaced, and the item with count and seed."""

    ids: list[int]
    place: int
    word: str
    item: FillMaskItem


class MaskedWords:
    """Proposes words for one position of a text, but never the original word or a stop word."""

    def __init__(self, folder: Path, *, device: str = "cpu") -> None:
        self._model, self._tokenizer = load_text_model(AutoModelForMaskedLM, folder, device)
        self._words = _whole_words(self._tokenizer.convert_ids_to_tokens(range(len(self._tokenizer))))
        self._longest = int(self._model.config.max_position_embeddings)
        self.revision = folder_revision(folder)

    def read(self, item: FillMaskItem) -> MaskedText:
        """Mask the word at the item's position and keep the punctuation around it.

        Raises:
            InvalidRequest: the text has no word at the position, or it is a stop word.
            PromptTooLong: the text has more tokens than the model reads.
        """
        parts = item.text.split()
        core = _CORE.search(parts[item.position]) if item.position < len(parts) else None
        if core is None:
            raise InvalidRequest(f"{item.text!r} has no word at position {item.position!r}")
        if core.group().casefold() in STOP_WORDS:
            raise InvalidRequest(
                f"{core.group()!r} is a stop word, which is never replaced; choose another word"
            )
        around = parts[item.position]
        parts[item.position] = around[: core.start()] + self._tokenizer.mask_token + around[core.end() :]
        ids: list[int] = self._tokenizer(" ".join(parts))["input_ids"]
        if len(ids) > self._longest:
            raise PromptTooLong(
                f"{item.text!r} has {len(ids)} tokens; the language model reads {self._longest}: shorten it"
            )
        return MaskedText(ids, ids.index(self._tokenizer.mask_token_id), core.group().casefold(), item)

    @torch.inference_mode()
    def odds(self, texts: list[MaskedText]) -> list[Tensor]:
        """Return each mask's probabilities over the vocabulary, float64 (V,)."""
        batch = self._tokenizer.pad({"input_ids": [text.ids for text in texts]}, return_tensors="pt")
        logits = self._model(**batch.to(self._model.device)).logits.double().cpu()
        return [row[text.place].softmax(-1) for row, text in zip(logits, texts, strict=True)]

    def draw(self, text: MaskedText, odds: Tensor) -> FilledMask:
        """Draw distinct words by their probabilities, from a generator with the item's seed."""
        if not bool(torch.isfinite(odds).all()):
            raise BadBackendOutput(
                f"the masked language model returned numbers that are not finite for {text.item.text!r}"
            )
        allowed = torch.tensor([word is not None and word != text.word for word in self._words])
        masked = odds[: len(allowed)].where(allowed, 0.0)
        best = masked.topk(min(CANDIDATES, int(allowed.sum())))
        n = min(text.item.n, int((best.values > 0).sum()))
        if n == 0:
            return FilledMask(words=[], probabilities=[])
        # On the CPU: a GPU's generator draws other numbers from the same seed.
        generator = torch.Generator().manual_seed(text.item.seed)
        drawn = torch.multinomial(best.values, n, generator=generator).tolist()
        chosen = [int(best.indices[index]) for index in drawn]
        return FilledMask(
            words=[self._words[index] or "" for index in chosen],
            probabilities=[float(odds[index]) for index in chosen],
        )


def _whole_words(tokens: list[str]) -> list[str | None]:
    """Return the word each token of the vocabulary stands for, None for pieces, marks and stop words."""
    # Byte-level and sentence-piece vocabularies mark where words begin; BERT's marks where they do not.
    marked = any(token.startswith(_SPACE_MARKS) for token in tokens)
    words: list[str | None] = []
    for token in tokens:
        word = token[1:] if token.startswith(_SPACE_MARKS) else token
        begins = token.startswith(_SPACE_MARKS) or not marked
        usable = begins and _WHOLE_WORD.fullmatch(word) and word.casefold() not in STOP_WORDS
        words.append(word if usable else None)
    return words
