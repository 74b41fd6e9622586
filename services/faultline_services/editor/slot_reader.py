"""Prompts whose slot is filled by learned vectors, on a table of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call

if TYPE_CHECKING:
    from transformers import CLIPTextModel


class SlotReader:
    """Tokenized prompts, to be read again and again under other vectors; gradients reach the vectors.

    ``prompts`` are padded ids, in which the tokens of a slot are numbered from the end of the table on. The
    text encoder is given the rows of its table that these prompts use and all vectors behind them: nothing is
    written to the loaded module, and a thousand tokens cost one concatenation.
    """

    def __init__(self, text_encoder: CLIPTextModel, prompts: Sequence[Sequence[int]]) -> None:
        self._text_encoder = text_encoder
        table: Tensor = text_encoder.get_input_embeddings().weight
        # By identity: releases of transformers nest the table differently.
        self._name = next(name for name, each in text_encoder.named_parameters() if each is table)
        ids = torch.tensor(prompts)
        self._is_slot = ids >= len(table)
        used = ids[~self._is_slot].unique()
        # Of the whole table every training step would copy 200 MB, and its gradient as much again.
        self._rows = table[used.to(table.device)]
        places = torch.searchsorted(used, ids)
        self._ids = torch.where(self._is_slot, ids - len(table) + len(used), places)

    def __call__(self, templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed, for each row, a prompt with the vectors of its owner among (N, k, D) into (R, L, D)."""
        return self.read(templates, [owner * vectors.shape[1] for owner in owners], vectors.flatten(0, 1))

    def read(self, prompts: Sequence[int], starts: Sequence[int], vectors: Tensor) -> Tensor:
        """Embed prompts, the slot of each filled from (V, D) by those from its start on, into (R, L, D)."""
        chosen = list(prompts)
        ids = self._ids[chosen] + self._is_slot[chosen] * torch.tensor(list(starts))[:, None]
        table = torch.cat([self._rows, vectors.to(self._rows)])
        embedded: Tensor = functional_call(self._text_encoder, {self._name: table}, (ids.to(table.device),))[
            0
        ]
        return embedded
