"""Sampling from a causal language model, and the likelihood of texts under it without its adapter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; ``top_k`` 0 draws from all."""

    temperature: float
    top_k: int
    max_new_tokens: int


@dataclass(frozen=True)
class Row:
    """A prompt's token ids and what its draws come from: equal prompt, seed and draw give equal numbers."""

    prompt: list[int]
    seed: int
    draw: int

    def generator(self) -> torch.Generator:
        """Return the generator of this row's draws.

        The prompt counts too, or all captions of one seed would meet the same unlikely numbers.
        """
        digest = hashlib.sha256(f"{self.seed}/{self.draw}/{self.prompt}".encode()).digest()
        # `manual_seed` takes 64 bits with a sign.
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def sample(
    model: PreTrainedModel, rows: Sequence[Row], sampling: Sampling, *, pad: int, ends: set[int]
) -> list[list[int]]:
    """Return each row's new token ids, its end token last if one was drawn in time.

    Prompts are padded on the left; one uniform number a token decides by the inverse of the
    cumulative probabilities, in float64.

    Args:
        model: a causal language model.
        rows: prompts of token ids, each with a generator of its own.
        sampling: temperature, cut-offs and the most new tokens.
        pad: the id that fills a prompt up to the longest.
        ends: the ids that end a row.
    """
    generators = [row.generator() for row in rows]
    ids, mask = _left_padded([row.prompt for row in rows], pad, model.device)
    made: list[list[int]] = [[] for _ in rows]
    past = None
    for _ in range(sampling.max_new_tokens):
        # Padding is not counted, or a row's positions would depend on its batch mates.
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        )
        past = output.past_key_values
        chosen = _choose(output.logits[:, -1], generators, sampling).tolist()
        going = [not (new and new[-1] in ends) for new in made]
        for new, token, goes in zip(made, chosen, going, strict=True):
            if goes:
                new.append(token)
        if all(new[-1] in ends for new in made):
            break
        # A row that has ended is fed padding until the longest has: its answer was closed above.
        following = [token if goes else pad for token, goes in zip(chosen, going, strict=True)]
        ids = torch.tensor(following, device=model.device)[:, None]
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    return made


def _choose(logits: Tensor, generators: Sequence[torch.Generator], sampling: Sampling) -> Tensor:
    """Return one token id a row from logits (n, vocabulary)."""
    # In float32 the sum over 32,000 words may end below the number drawn; on the CPU all machines agree.
    scaled = logits.double().cpu() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        least = scaled.topk(sampling.top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    cumulative = scaled.softmax(-1).cumsum(-1)
    drawn = torch.stack([torch.rand(1, generator=one, dtype=torch.float64) for one in generators])
    return torch.searchsorted(cumulative, drawn * cumulative[:, -1:]).clamp(max=scaled.shape[-1] - 1)[:, 0]


def _left_padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids and mask, int64 (n, L)."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


@dataclass(frozen=True)
class BaseWeights:
    """What the matrices that an adapter was merged into were before, by the names of their layers.

    Kept rather than subtracted again: in half precision each merge and unmerge would leave a rounding.
    """

    weights: Mapping[str, Tensor]

    @classmethod
    def under(cls, adapted: PeftModel) -> BaseWeights:
        """Copy the matrices under an adapter that is not merged yet."""
        found = adapted.get_base_model().named_modules()
        layers = {name: layer for name, layer in found if isinstance(layer, BaseTunerLayer)}
        return cls({name: layer.get_base_layer().weight.detach().clone() for name, layer in layers.items()})

    def to(self, device: torch.device) -> BaseWeights:
        """Return them on a device."""
        return BaseWeights({name: weight.to(device) for name, weight in self.weights.items()})

    @contextmanager
    def standing_in(self, model: PreTrainedModel) -> Iterator[None]:
        """Let the base answer for as long as this lasts; the engine's one thread sees no other model."""
        layers = {name: model.get_submodule(name) for name in self.weights}
        merged = {name: layer.weight.data for name, layer in layers.items()}
        try:
            for name, layer in layers.items():
                layer.weight.data = self.weights[name]
            yield
        finally:
            for name, layer in layers.items():
                layer.weight.data = merged[name]


def log_likelihoods(model: PreTrainedModel, rows: Sequence[Sequence[int]], *, pad: int) -> list[float]:
    """Return log p of each row's tokens behind its first, nats, summed."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    logits = model(input_ids=ids, attention_mask=mask).logits
    # In half precision the sum over a hundred tokens would be off by whole nats.
    odds = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [float(row[: len(told) - 1].sum()) for row, told in zip(odds, rows, strict=True)]
