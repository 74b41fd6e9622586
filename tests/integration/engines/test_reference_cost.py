"""The floating-point operations of the reference, compared with the cost model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evaluation.reference.plain_editing import Target, call, invert, null_text
from evaluation.reference.plain_unet import PlainUNet
from evaluation.reference.reference_run import reference_evaluations, reference_run
from evaluation.reference.toy_denoisers import draw
from fakes.tiny_pipeline import tiny_unet

# isort: split
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser

STEPS, LENGTH, WIDTH, INNER = 2, 6, 16, 1
CLEAN, TEXT, NULL = (
    draw(1, 4, 8, 8, seed=5, dtype=torch.float32),
    draw(1, LENGTH, WIDTH, seed=6, dtype=torch.float32),
    draw(1, LENGTH, WIDTH, seed=9, dtype=torch.float32),
)
IDENTITY = {j: [(j, 1.0)] for j in range(LENGTH)}
TARGETS = [Target(draw(1, LENGTH, WIDTH, seed=s, dtype=torch.float32), IDENTITY, {}) for s in (7, 8)]


def flops(work: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


@pytest.fixture(scope="module")
def reference() -> PlainUNet:
    return PlainUNet(tiny_unet())


@pytest.fixture(scope="module")
def one_forward(reference: PlainUNet) -> int:
    with torch.no_grad():
        return flops(lambda: call(reference, CLEAN, 500, TEXT))


def test_the_cost_model_predicts_the_cost_of_an_image(reference: PlainUNet, one_forward: int) -> None:
    counted = flops(
        lambda: reference_run(
            reference, CLEAN, TEXT, NULL, TARGETS, parity="paper", steps=STEPS, inner_steps=INNER,
            tolerance=0.0, sweep=(0.5, 1.0),
        )
    )  # fmt: skip
    expected = reference_evaluations(steps=STEPS, inner=STEPS * INNER, sweep=2, edits=2)
    assert counted / one_forward == pytest.approx(expected, rel=0.01)


def test_an_inner_iteration_costs_three_forward_passes(reference: PlainUNet, one_forward: int) -> None:
    with torch.no_grad():
        path = invert(reference, CLEAN, TEXT, STEPS)

    def inverted(inner: int) -> int:
        return flops(
            lambda: null_text(reference, path, TEXT, NULL, guidance=7.5, inner_steps=inner, tolerance=0.0)
        )

    extra = (inverted(INNER + 1) - inverted(INNER)) / STEPS
    assert extra / one_forward == pytest.approx(3.0, rel=0.01)


def test_the_reference_uses_the_product_s_network(reference: PlainUNet) -> None:
    unet = tiny_unet()
    product = UNetDenoiser(unet)
    times = torch.full((1,), 500)

    def predicted(model: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        with torch.no_grad():
            return model(CLEAN, times, TEXT)

    assert torch.allclose(predicted(reference), predicted(product), atol=1e-5)
