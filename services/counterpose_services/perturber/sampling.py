"""Sampling from a causal language model in this process, and the likelihood of texts under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from counterpose_services.perturber.language_model import Row, Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def draws(row: Row, n: int) -> Tensor:
    """Return the row's first ``n`` uniform numbers in [0, 1), float64, made on the CPU."""
    return torch.rand(n, generator=torch.Generator().manual_seed(row.number), dtype=torch.float64)


def _ids(row: Row) -> list[int]:
    if not isinstance(row.prompt, list):
        raise TypeError("a model in this process takes token ids")
    return row.prompt


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
    ids, mask = _left_padded([_ids(row) for row in rows], pad, model.device)
    drawn = torch.stack([draws(row, sampling.max_new_tokens) for row in rows]).to(model.device)
    made: list[list[int]] = [[] for _ in rows]
    # The numbers of the rows that have not ended, in the order of the network's cache.
    going, past = list(range(len(rows))), None
    for step in range(sampling.max_new_tokens):
        # Padding is not counted, or a row's positions would depend on the rest of its batch.
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        )
        past = output.past_key_values
        chosen = _choose(output.logits[:, -1], drawn[going, step], sampling)
        for row, token in zip(going, chosen.tolist(), strict=True):
            made[row].append(token)
        lasting = [place for place, row in enumerate(going) if made[row][-1] not in ends]
        if not lasting:
            break
        ids, mask = chosen[:, None], torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        if len(lasting) < len(going):
            # An ended row would be computed until the longest one ends.
            kept = torch.tensor(lasting, device=model.device)
            past.batch_select_indices(kept)
            ids, mask, going = ids[kept], mask[kept], [going[place] for place in lasting]
    return made


def _choose(logits: Tensor, drawn: Tensor, sampling: Sampling) -> Tensor:
    """Return one token id per row of logits (n, vocabulary), by the inverse of its cumulative probability."""
    # In float32, the sum over 32,000 words may stay below the number drawn.
    scaled = logits.double() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        least = scaled.topk(sampling.top_k, dim=-1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    cumulative = scaled.softmax(-1).cumsum(-1)
    found = torch.searchsorted(cumulative, drawn[:, None] * cumulative[:, -1:])
    return found.clamp(max=scaled.shape[-1] - 1)[:, 0]


def _left_padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids and mask, int64 (n, L)."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def log_likelihoods(model: PreTrainedModel, rows: Sequence[Sequence[int]], *, pad: int) -> list[float]:
    """Return log p of each row's tokens after its first, in nats, summed."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=model.device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    logits = model(input_ids=ids, attention_mask=mask).logits
    # In half precision, the sum over a hundred tokens would be wrong by whole nats.
    odds = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return [float(row[: len(tokens) - 1].sum()) for row, tokens in zip(odds, rows, strict=True)]
