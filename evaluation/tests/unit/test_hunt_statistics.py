"""The simulation of bug hunts: its truths are correct, its figures can fail, and they are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.bug_hunt.sampling import FixedSampling
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.hunt_statistics import __main__ as command
from evaluation.hunt_statistics import hunts
from evaluation.hunt_statistics.cells import BY_CAPTIONS, GAINS, MEANS, SHARES, Mean
from evaluation.hunt_statistics.coverage import careless, coverage, own_stop
from evaluation.hunt_statistics.hunts import ALIKE, REQUESTED, STRONG, World, hunted
from evaluation.hunt_statistics.rare_failures import (
    WORLDS,
    RareWorld,
    covered_by_captions,
    covered_for_two,
)

A_FEW = {
    name: SHARES[name] for name in ("interval holds, inverse, rate 0.05", "the bug is proven, sequential")
}
NEEDED = ("discovery rate of a winner, fixed", "held-out rate of a winner, fixed")


@pytest.mark.parametrize("name", WORLDS)
def test_the_truth_of_a_rare_world_is_what_its_name_says(name: str) -> None:
    world = WORLDS[name]
    assert world.truth == pytest.approx(float(name.split()[1].rstrip(",")))
    assert sum(world.shares) == pytest.approx(1.0)
    assert world.described == pytest.approx(
        0.5 if "half" in name else 0.99 if "99" in name else 1.0, abs=1e-9
    )


def test_a_label_without_undescribed_failures_takes_ten_times_fewer_images() -> None:
    generator = np.random.default_rng(0)
    times, holds = GAINS["rate 0.0001, all described"].simulate(5, generator)
    assert holds
    assert times > 1000
    lost, told = GAINS["rate 0.0001, half described"].simulate(5, generator)
    assert (lost < 2, told) == (True, None)
    assert RareWorld.of(1e-4).paid == 2000 + 5 * 32


def test_shares_from_captions_save_nothing_and_their_interval_does_not_hold() -> None:
    generator = np.random.default_rng(0)
    for name in BY_CAPTIONS:
        times, told = GAINS[f"{name}, shares from captions"].simulate(5, generator)
        assert (times < 2, told) == (True, None)
    world = WORLDS["rate 0.001, all described"]
    assert (covered_by_captions(world, 60, generator).estimate or 0.0) < 0.9
    assert (covered_for_two(world, 60, generator).estimate or 0.0) >= 0.95


def test_an_interval_that_is_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(self: FixedSampling, failures: int, images: int, *, ended: bool = True) -> Estimate:
        found = failures / images
        return Estimate(estimate=found, low=found * 0.99, high=found * 1.01, n=images)

    generator = np.random.default_rng(0)
    rule = FixedSampling(images=500)
    good = coverage(own_stop(rule, 0.2, 60, generator), 0.2)
    monkeypatch.setattr(FixedSampling, "rate", narrow)
    bad = coverage(own_stop(rule, 0.2, 60, generator), 0.2)
    cell = SHARES["interval holds, fixed, rate 0.2"]
    assert (cell.holds(good), cell.holds(bad)) == (True, False)


def test_reading_a_fixed_interval_at_every_look_goes_wrong() -> None:
    assert (careless(0.5, 60, np.random.default_rng(0)).estimate or 0.0) < 0.9


def test_a_test_without_correction_reports_false_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0.3, (0.3,) * 8, all_win=True)

    def false(replicates: int) -> Estimate:
        generator = np.random.default_rng(1)
        found = (hunted(world, REQUESTED["fixed"], generator) for _ in range(replicates))
        return proportion(sum(any(each.p <= 0.05 for each in won) for won in found), replicates)

    assert (false(80).estimate or 0.0) <= 0.1
    monkeypatch.setattr(hunts, "holm", list)
    assert (false(80).estimate or 0.0) > 0.1


def test_the_first_winner_is_the_bug_and_chosen_rates_are_too_high() -> None:
    generator = np.random.default_rng(2)
    (won, *_) = hunted(STRONG, REQUESTED["sequential"], generator)
    assert (won.truth, won.is_bug, won.p < 0.05) == (0.7, True, True)
    found = [each for _ in range(30) for each in hunted(ALIKE, REQUESTED["fixed"], generator)[:1]]
    assert np.mean([each.discovery for each in found]) > 0.27
    assert np.mean([each.held_out.estimate for each in found]) == pytest.approx(0.25, abs=0.03)


def test_a_biased_mean_is_seen() -> None:
    def draw(replicates: int, generator: np.random.Generator) -> tuple[list[float], list[float]]:
        return list(generator.normal(1.2, 0.1, replicates)), [1.0] * replicates

    figure, holds = Mean(draw).simulate(50, np.random.default_rng(0))
    assert holds is False
    assert figure.estimate == pytest.approx(0.2, abs=0.06)
    assert Mean(draw, unbiased=False).simulate(50, np.random.default_rng(0))[1] is None


def test_figures_are_written_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "figures.json"
    figures = command.simulate(8, 0, A_FEW, {name: MEANS[name] for name in NEEDED}, GAINS)
    assert command.holds(figures)
    monkeypatch.setattr(command, "simulate", lambda replicates, seed: figures)
    monkeypatch.setattr(sys, "argv", ["hunts", "--replicates", "8", "--out", str(out)])
    assert command.main() == 0
    assert json.loads(out.read_text(encoding="utf-8"))["shares"].keys() == A_FEW.keys()
    figures["shares"]["the bug is proven, sequential"]["holds"] = False
    assert command.main() == 1
