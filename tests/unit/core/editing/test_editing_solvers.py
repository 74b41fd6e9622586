import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.edit import Edited, EditSettings, EditTask
from counterpose_core.editing.inversion.tuning_free import virtual_inversion
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType, Timetable
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_core.editing.solvers.ddim import step
from counterpose_core.editing.solvers.solver import DDIM, DPMSolver2M, Move, Solver, predicted_clean
from counterpose_core.editing.sweep import Fork
from evaluation.reference.plain_driver import edit
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

SPREAD = 2.0


def of_gaussian(table: Timetable, index: int, latents: Tensor) -> Tensor:
    """What a perfect network says where clean latents are normal with deviation SPREAD."""
    level = table.levels[index]
    signal, noise, variance = math.sqrt(level), math.sqrt(1 - level), level * SPREAD**2 + 1 - level
    clean, drawn = signal * SPREAD**2 * latents / variance, noise * latents / variance
    return drawn if table.prediction == "epsilon" else signal * drawn - noise * clean


def solved(solver: Solver, table: Timetable, noise: Tensor) -> Tensor:
    latents, earlier = noise, None
    for index in range(table.steps):
        output = of_gaussian(table, index, latents)
        move = Move(latents, output, source_next=latents, earlier=earlier)
        latents, earlier = solver.advance(table, index, move)
    return latents


def deviation(level: float) -> float:
    return math.sqrt(level * SPREAD**2 + 1 - level)


def error(solver: Solver, steps: int) -> float:
    """How far the solved path ends from the ODE's own solution, which keeps a point's quantile."""
    # Equal widths in log signal-to-noise, on which the order of a solver shows with few steps.
    halves = torch.linspace(-2.0, 2.0, steps + 1, dtype=torch.float64)
    table = Timetable(tuple(range(steps)), tuple(torch.sigmoid(2 * halves).tolist()), "epsilon")
    start = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    exact = start * deviation(table.levels[-1]) / deviation(table.levels[0])
    return float((solved(solver, table, start) - exact).abs())


def test_step_halving_divides_error_by_two_in_first_order_and_four_in_second() -> None:
    assert error(DDIM(), 80) == pytest.approx(error(DDIM(), 160) * 2, rel=0.1)
    assert error(DPMSolver2M(), 80) == pytest.approx(error(DPMSolver2M(), 160) * 4, rel=0.1)
    assert error(DPMSolver2M(), 20) < error(DDIM(), 20) / 5


def plain_second_order(table: Timetable, noise: Tensor) -> Tensor:
    """Lu et al. 2022, algorithm 2, in its own symbols."""
    alpha = [math.sqrt(level) for level in table.levels]
    sigma = [math.sqrt(1 - level) for level in table.levels]
    lam = [math.log(a / s) for a, s in zip(alpha, sigma, strict=True)]
    x, predictions = noise, list[Tensor]()
    for i in range(1, table.steps + 1):
        h = lam[i] - lam[i - 1]
        predictions.append(predicted_clean(table, i - 1, x, of_gaussian(table, i - 1, x)))
        wanted = predictions[-1]
        if 1 < i < table.steps:
            r = (lam[i - 1] - lam[i - 2]) / h
            wanted = (1 + 1 / (2 * r)) * predictions[-1] - 1 / (2 * r) * predictions[-2]
        x = sigma[i] / sigma[i - 1] * x - alpha[i] * (math.exp(-h) - 1) * wanted
    return x


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_the_second_order_solver_matches_the_papers_algorithm(prediction: PredictionType) -> None:
    table, noise = NoiseSchedule(prediction=prediction).timetable(7), draw(2, 2, 4, 4, seed=1)
    assert torch.allclose(
        solved(DPMSolver2M(), table, noise), plain_second_order(table, noise), atol=1e-12, rtol=0
    )


def test_the_second_order_solver_ends_at_a_noise_free_level() -> None:
    table, noise = NoiseSchedule(set_alpha_to_one=True).timetable(5), draw(1, 2, 4, 4, seed=2)
    assert table.levels[-1] == 1.0
    assert bool(torch.isfinite(solved(DPMSolver2M(), table, noise)).all())


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_predicted_clean_latents_invert_the_noising(prediction: PredictionType) -> None:
    table, clean, noise = (
        NoiseSchedule(prediction=prediction).timetable(6),
        draw(1, 2, 3, 3, seed=3),
        draw(1, 2, 3, 3, seed=4),
    )
    signal, share = math.sqrt(table.levels[2]), math.sqrt(1 - table.levels[2])
    output = noise if prediction == "epsilon" else signal * noise - share * clean
    assert torch.allclose(predicted_clean(table, 2, signal * clean + share * noise, output), clean)


def test_the_ddim_solver_equals_the_ddim_step() -> None:
    table, latents, output = NoiseSchedule().timetable(6), draw(1, 2, 3, 3, seed=5), draw(1, 2, 3, 3, seed=6)
    moved, memory = DDIM().advance(table, 3, Move(latents, output, source_next=latents))
    assert torch.equal(moved, step(table, 3, latents, output))
    assert memory is None


def test_resuming_from_a_fork_keeps_the_previous_step() -> None:
    table, text, latents = (
        NoiseSchedule().timetable(6),
        draw(2, LENGTH, WIDTH, seed=7),
        draw(1, 2, 4, 4, seed=8),
    )
    inverted = virtual_inversion(table, latents, text[0], draw(1, 2, 4, 4, seed=9))
    prompt = TokenizedPrompt((0, 5, 1), (None, 0, None))
    one = EditTask(0, text[1], cross_edit(align(prompt, prompt), LENGTH, word_weight=1.0))

    def run(values: tuple[float, ...], start: Fork | None) -> Edited:
        settings = EditSettings(
            guidance=2.0, cross_replace=0.0, self_replace=values, fork_steps=(3,), solver=DPMSolver2M()
        )
        return edit(TinyAttention(), table, inverted, text[:1], [replace(one, start=start)], settings)

    whole = run((0.5, 1.0), None)
    resumed = run((0.5,), whole.forks[0][0])
    assert torch.allclose(resumed.latents[0, 0], whole.latents[0, 0], atol=1e-12, rtol=0)
