"""How likely texts are under a language model, its adapter taken away."""

from __future__ import annotations

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
