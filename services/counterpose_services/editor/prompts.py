"""Prompts as the text encoder reads them, with learned vectors in slots; one that does not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from threading import RLock
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call

from counterpose_core.editing.prompt_alignment import TokenizedPrompt
from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_core.text.class_prompts import CLASS_SLOT, refuse_slot, require_slot

if TYPE_CHECKING:
    from transformers import CLIPTextModel, PreTrainedTokenizerBase


class SlotReader:
    """Tokenized prompts that can be embedded repeatedly with other vectors; gradients reach the vectors.

    ``prompts`` are padded ids; ids from the end of the table on are the tokens of a slot. The text encoder
    gets the rows of its table that these prompts use, followed by all vectors. So nothing is written to the
    loaded module, and a thousand tokens cost one concatenation. ``ends`` are the positions of the end tokens,
    for an encoder that pools there: it cannot know them by their ids.
    """

    def __init__(
        self,
        text_encoder: CLIPTextModel,
        prompts: Sequence[Sequence[int]],
        ends: Tensor | None = None,
        turn: RLock | None = None,
    ) -> None:
        self._text_encoder, self._ends, self._turn = text_encoder, ends, turn or RLock()
        table: Tensor = text_encoder.get_input_embeddings().weight
        # Found by identity, because releases of transformers nest the table differently.
        self._name = next(name for name, each in text_encoder.named_parameters() if each is table)
        ids = torch.tensor(prompts)
        self._is_slot = ids >= len(table)
        used = ids[~self._is_slot].unique()
        # With the whole table, every training step would copy 200 MB, and the same for its gradient.
        self._rows = table[used.to(table.device)]
        places = torch.searchsorted(used, ids)
        self._ids = torch.where(self._is_slot, ids - len(table) + len(used), places)

    def __call__(self, templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed one prompt per row, with its owner's vectors from (N, k, D), into (R, L, D)."""
        return self.read(templates, [owner * vectors.shape[1] for owner in owners], vectors.flatten(0, 1))

    def read(self, prompts: Sequence[int], starts: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed prompts into (R, L, D); the slot of each takes the vectors (V, D) from its start on."""
        chosen = list(prompts)
        ids = self._ids[chosen] + self._is_slot[chosen] * torch.tensor(list(starts))[:, None]
        table = torch.cat([self._rows, vectors.to(self._rows)])
        places = _places(None if self._ends is None else self._ends[chosen])
        # The table is the module's for so long; nobody else must read prompts with it.
        with self._turn:
            embedded: Tensor = functional_call(
                self._text_encoder, {self._name: table}, (ids.to(table.device),), places
            )[0]
        return embedded


def _places(ends: Tensor | None) -> dict[str, Tensor]:
    """Return the further argument of a text encoder that pools."""
    return {} if ends is None else {"ends": ends}


class PromptEncoder:
    """The pipeline's tokenizer and text encoder; learned vectors follow its table and are never in it.

    ``pad`` is the id after the end of a prompt, by default the tokenizer's own.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, text_encoder: CLIPTextModel, pad: int | None = None
    ) -> None:
        self._tokenizer = tokenizer
        # Several calls prepare at once; neither tokenizer nor text encoder may be shared within a moment.
        self._turn = RLock()
        self._pad = int(tokenizer.pad_token_id) if pad is None else pad
        self._text_encoder = text_encoder.eval().requires_grad_(requires_grad=False)
        positions = int(text_encoder.config.max_position_embeddings)
        self.length = min(int(tokenizer.model_max_length), positions)
        """The largest number of tokens of a prompt, including the start and end tokens."""
        self._table: Tensor = text_encoder.get_input_embeddings().weight
        self.width = int(self._table.shape[1])
        """The width of the table's vectors."""

    def tokenize(self, text: str, vectors: int = 0) -> TokenizedPrompt:
        """Split ``text`` into tokens with the index of their word.

        With ``vectors``, its slot is one word of that many tokens, with ids after the end of the table, which
        no text produces.

        Raises:
            InvalidRequest: it has a special token or an unknown word, a slot without vectors, or not exactly
                one slot with vectors.
            PromptTooLong: it has more tokens than the text encoder reads.
        """
        if vectors:
            prompt = self._with_slot(text, vectors)
        else:
            refuse_slot(text)
            prompt = self._tokenized(text)
        if len(prompt.ids) > self.length:
            raise PromptTooLong(
                f"{text!r} has {len(prompt.ids)} tokens; the text encoder reads {self.length}: shorten it"
            )
        self._refuse_marks(text, prompt)
        return prompt

    def _refuse_marks(self, text: str, prompt: TokenizedPrompt) -> None:
        # CLIP pools at the first end token, so text after it would be ignored silently.
        if not set(self._tokenizer.all_special_ids).isdisjoint(prompt.ids[1:-1]):
            raise InvalidRequest(
                f"{text!r} contains a special token of the text encoder or a word outside of its vocabulary; "
                "use other words"
            )

    def _tokenized(self, text: str) -> TokenizedPrompt:
        # Not verbose: transformers would warn about lengths that we refuse.
        with self._turn:
            encoding = self._tokenizer(text, truncation=False, verbose=False)
        return TokenizedPrompt(tuple(encoding["input_ids"]), tuple(encoding.word_ids(0)))

    def _with_slot(self, text: str, vectors: int) -> TokenizedPrompt:
        require_slot(text)
        # Tokenized separately, as around an added token, so that words never join across the slot.
        before, after = (self._tokenized(part) for part in text.split(CLASS_SLOT))
        slot = tuple(range(len(self._table), len(self._table) + vectors))
        place = 1 + max((word for word in before.words if word is not None), default=-1)
        later = [None if word is None else place + 1 + word for word in after.words]
        return TokenizedPrompt(
            (*before.ids[:-1], *slot, *after.ids[1:]), (*before.words[:-1], *[place] * vectors, *later[1:])
        )

    def mean_embedding(self, words: str) -> Tensor:
        """Return the mean (D) of the table's rows for ``words``, the initial value of learned vectors.

        Raises:
            InvalidRequest: they contain no token, or a word outside the vocabulary.
        """
        refuse_slot(words)
        prompt = self._tokenized(words)
        if len(prompt.ids) == 2:
            raise InvalidRequest(
                f"the text encoder's tokenizer reads no token in {words!r}; give an initialiser"
            )
        self._refuse_marks(words, prompt)
        return self._table[list(prompt.ids[1:-1])].mean(dim=0)

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """Embed prompts into (N, length, D); equal texts are embedded once."""
        distinct = list(dict.fromkeys(texts))
        prompts = [self.tokenize(text) for text in distinct]
        ids = torch.tensor([self._padded(prompt) for prompt in prompts], device=self._text_encoder.device)
        # The padding is not masked, because Stable Diffusion was trained to attend to it.
        with self._turn:
            embedded: Tensor = self._text_encoder(ids, **_places(self._ends(prompts)))[0]
        return embedded[[distinct.index(text) for text in texts]]

    @torch.no_grad()
    def encode_learned(self, texts: Sequence[str], tokens: Sequence[Tensor]) -> Tensor:
        """Embed prompts, each with its own vectors (k, D) in its slot, into (N, length, D).

        Equal prompts with the same token are embedded once; all tokens form one table.
        """
        asked = [(text, id(token)) for text, token in zip(texts, tokens, strict=True)]
        distinct, vectors = list(dict.fromkeys(asked)), {id(token): token for token in tokens}
        ends = accumulate(len(token) for token in vectors.values())
        starts = {name: end - len(vectors[name]) for name, end in zip(vectors, ends, strict=True)}
        reader = self.slot_reader([(text, len(vectors[name])) for text, name in distinct])
        joined = torch.cat(list(vectors.values()))
        embedded = reader.read(range(len(distinct)), [starts[name] for _, name in distinct], joined)
        return embedded[[distinct.index(each) for each in asked]]

    def slot_reader(self, prompts: Sequence[tuple[str, int]]) -> SlotReader:
        """Tokenize prompts, each with its number of vectors in its slot; raises as ``tokenize`` does."""
        tokenized = [self.tokenize(text, vectors) for text, vectors in prompts]
        rows = [self._padded(prompt) for prompt in tokenized]
        return SlotReader(self._text_encoder, rows, self._ends(tokenized), self._turn)

    def _ends(self, prompts: Sequence[TokenizedPrompt]) -> Tensor | None:
        """Return the positions of the end tokens (R,) if the text encoder pools there."""
        if not getattr(self._text_encoder, "pools", False):
            return None
        return torch.tensor([len(prompt.ids) - 1 for prompt in prompts], device=self._text_encoder.device)

    def _padded(self, prompt: TokenizedPrompt) -> list[int]:
        return [*prompt.ids, *[self._pad] * (self.length - len(prompt.ids))]
