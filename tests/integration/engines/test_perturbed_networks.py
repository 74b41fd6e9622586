"""Noise that simulates other processors: small, different at every call, and transparent to gradients."""

from __future__ import annotations

import pytest
import torch

from fakes.perturbed_networks import perturbed_networks

# isort: split
from torch import Tensor, nn

SCALE = 1e-6


def network(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).to(dtype)


def answers(model: nn.Module, calls: int = 2, seed: int = 0) -> list[Tensor]:
    given = torch.linspace(-1, 1, 64, dtype=next(model.parameters()).dtype)[None]
    with torch.no_grad(), perturbed_networks(SCALE, seed):
        return [model(given) for _ in range(calls)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_call_adds_different_noise_of_the_requested_size(dtype: torch.dtype) -> None:
    model = network(dtype)
    first, second = answers(model)
    size = SCALE * torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
    apart = float((first - second).abs().max() / first.square().mean().sqrt())
    assert size / 2 < apart < 3 * size
    assert answers(model)[0].equal(first)
    assert not answers(model, seed=1)[0].equal(first)


def test_some_half_precision_numbers_round_the_other_way() -> None:
    model = network(torch.float16)
    many = torch.stack(answers(model, calls=300)).flatten(1)
    moved = (many != many.median(dim=0).values).float().mean()
    # A millionth is about a thousandth of half precision's resolution.
    assert 1e-4 < float(moved) < 1e-2


def test_non_finite_numbers_stay_and_do_not_affect_others() -> None:
    class Spoilt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 4)

        def forward(self, given: Tensor) -> Tensor:
            return torch.cat([self.layer(given), torch.tensor([[torch.nan, torch.inf]])], dim=1)

    with torch.no_grad(), perturbed_networks(SCALE):
        found = Spoilt()(torch.ones(1, 2))[0]
    assert found.isfinite().tolist() == [True] * 4 + [False] * 2
    assert float(found[5]) == torch.inf


def test_gradients_pass_and_integers_and_lookups_are_unchanged() -> None:
    model, table = network(), nn.Embedding(3, 2)
    given = torch.zeros(1, 64, requires_grad=True)
    with perturbed_networks(SCALE):
        model(given).sum().backward()
        assert table(torch.tensor([1])).equal(table.weight[1:2])
    assert given.grad is not None
    assert bool(given.grad.any())


def test_inner_layers_and_later_calls_have_no_noise() -> None:
    model = network()
    seen: list[Tensor] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    answers(model)
    assert seen[0].equal(seen[1])
    given = torch.zeros(1, 64)
    assert model(given).equal(model(given))
