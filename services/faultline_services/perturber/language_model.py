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
    """How tokens are drawn; ``top_k`` 0 means from all tokens."""

    temperature: float
    top_k: int
    max_new_tokens: int


@dataclass(frozen=True)
class Row:
    """A prompt's token ids and the inputs of its draws: equal prompt, seed and draw give equal numbers."""

    prompt: list[int]
    seed: int
    draw: int

    def generator(self) -> torch.Generator:
        """Return the generator of this row's draws.

        It depends on the prompt too, or all captions of one seed would get the same unlikely numbers.
        """
        digest = hashlib.sha256(f"{self.seed}/{self.draw}/{self.prompt}".encode()).digest()
        # `manual_seed` takes a signed 64-bit number.
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def sample(
    model: PreTrainedModel, rows: Sequence[Row], sampling: Sampling, *, pad: int, ends: set[int]
) -> list[list[int]]:
    """Return each row's new token ids, with the end token if one was drawn in time.

    Ancestral sampling in which every row has its own random draws, whatever shares its batch. Prompts are
    padded on the left; one uniform number per token picks it by inverse cumulative probability, in float64.

    Args:
        model: a causal language model.
        rows: prompts of token ids, each with its own generator.
        sampling: temperature, cut-off and the maximum number of new tokens.
        pad: the id that pads prompts to the longest.
        ends: the ids that end a row.
    """
    generators = [row.generator() for row in rows]
    ids, mask = _left_padded([row.prompt for row in rows], pad, model.device)
    made: list[list[int]] = [[] for _ in rows]
    past = None
    for _ in range(sampling.max_new_tokens):
        # Padding is not counted, or a row's positions would depend on the rest of its batch.
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
        # A row that has ended gets padding until the longest row ends; its answer no longer changes.
        following = [token if goes else pad for token, goes in zip(chosen, going, strict=True)]
        ids = torch.tensor(following, device=model.device)[:, None]
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    return made


def _choose(logits: Tensor, generators: Sequence[torch.Generator], sampling: Sampling) -> Tensor:
    """Return one token id per row of logits (n, vocabulary)."""
    # In float32, the sum over 32,000 words may stay below the number drawn; CPUs agree with each other.
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
    """The matrices before an adapter was merged into them, by the names of their layers.

    Copies, because subtracting the adapter again would leave rounding errors in half precision.
    """

    weights: Mapping[str, Tensor]

    @classmethod
    def under(cls, adapted: PeftModel) -> BaseWeights:
        """Copy the matrices under an adapter that is not yet merged."""
        found = adapted.get_base_model().named_modules()
        layers = {name: layer for name, layer in found if isinstance(layer, BaseTunerLayer)}
        return cls({name: layer.get_base_layer().weight.detach().clone() for name, layer in layers.items()})

    def to(self, device: torch.device) -> BaseWeights:
        """Return the matrices on a device."""
        return BaseWeights({name: weight.to(device) for name, weight in self.weights.items()})

    @contextmanager
    def standing_in(self, model: PreTrainedModel) -> Iterator[None]:
        """Put the base weights into the model within the context; only the engine's thread may call it."""
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
    """Return log p of each row's tokens after its first, in nats, summed."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    logits = model(input_ids=ids, attention_mask=mask).logits
    # In half precision, the sum over a hundred tokens would be wrong by whole nats.
    odds = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [float(row[: len(tokens) - 1].sum()) for row, tokens in zip(odds, rows, strict=True)]
