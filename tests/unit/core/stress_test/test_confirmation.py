"""The confirmation: tests of fresh pairs, corrected over all, and two whole stages by simulation."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from counterpose_core.stress_test.confirmation import (
    FUTILE_LOSS,
    PairColumns,
    confirm,
    e_value,
    is_futile,
    mean_loss,
    relabelled_p,
)
from fakes.screened_world import Noise, Outcome, World, two_stages


def generators(number: int) -> list[np.random.Generator]:
    """A generator for each hypothesis."""
    return [np.random.default_rng(seed) for seed in range(number)]


def fresh(*losses: list[float]) -> list[PairColumns]:
    """The pairs of several hypotheses, each of a source image of its own."""
    return [PairColumns.fresh(each) for each in losses]


def redrawn(losses: list[list[float]]) -> PairColumns:
    """Pairs of several draws: the losses of each source image, under placebos that are answered surely."""
    sources = [str(number) for number, found in enumerate(losses) for _ in found]
    edits = [0.95 - loss for found in losses for loss in found]
    return PairColumns.of(sources, [0.95] * len(edits), edits, redrawn=True)


def test_the_p_of_few_pairs_is_exact_and_corrected_over_all_hypotheses() -> None:
    tests = confirm(fresh([0.5] * 8, [0.1, -0.1] * 4), [False, False], generators(2))
    assert [test.p for test in tests] == [2**-8, pytest.approx(0.637, abs=1e-3)]
    assert tests[0].p_adjusted == 2 * 2**-8
    assert [test.confirmed for test in tests] == [True, False]


def test_a_hypothesis_that_was_given_up_still_counts_in_the_correction() -> None:
    strong = [0.5] * 5
    (alone,) = confirm(fresh(strong), [False], generators(1))
    among, given_up = confirm(fresh(strong, [0.5] * 20), [False, True], generators(2))
    assert (alone.confirmed, among.confirmed) == (True, False)
    assert (given_up.p, given_up.confirmed) == (1.0, False)


def test_a_loss_too_small_to_matter_is_not_confirmed_however_sure() -> None:
    (sure,) = confirm(fresh([0.04] * 20), [False], generators(1))
    assert sure.p_adjusted < 0.001
    assert not sure.confirmed


def test_a_hypothesis_without_pairs_has_no_evidence() -> None:
    (empty,) = confirm(fresh([]), [False], generators(1))
    assert (empty.n, empty.mean, empty.p, empty.confirmed) == (0, 0.0, 1.0, False)


def test_no_hypotheses_give_no_tests() -> None:
    assert confirm([], [], []) == []


def test_a_hypothesis_is_given_up_only_after_four_hopeless_pairs() -> None:
    hopeless = [is_futile(found) for found in fresh([0.0] * 3, [0.0] * 4, [FUTILE_LOSS] * 4, [])]
    assert hopeless == [False, True, False, False]


def test_draws_of_few_images_prove_what_as_many_fresh_ones_could_not() -> None:
    two = redrawn([[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]])
    # Any three of the six images of each could have been the placebos: twenty ways each.
    assert relabelled_p(two, np.random.default_rng(0)) == pytest.approx(1 / 400)
    assert relabelled_p(PairColumns.fresh([0.5, 0.6, 0.7] * 2), np.random.default_rng(0)) == 1 / 64


def test_many_draws_of_few_images_are_tested_within_bounds_of_memory() -> None:
    """Twice thirteen pairs, as a proof and its repetition make them: all labellings would take 18 GB."""
    harmed, unharmed = redrawn([[0.5] * 13] * 2), redrawn([[0.1, -0.1] * 7] * 2)
    tracemalloc.start()
    proven, open_ = (relabelled_p(each, np.random.default_rng(0)) for each in (harmed, unharmed))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert proven < 0.001
    assert open_ > 0.3
    assert peak < 100e6


def test_labellings_that_are_drawn_call_no_more_harmful_than_stated() -> None:
    generator, called = np.random.default_rng(8), 0
    for _ in range(200):
        images = generator.normal(0.5, 0.2, (1, 20))
        pairs = PairColumns.of(["a"] * 10, images[0, :10], images[0, 10:], redrawn=True)
        called += relabelled_p(pairs, generator) <= 0.05
    assert stats.binomtest(called, 200, 0.05).pvalue > 0.01


def test_one_pair_each_is_a_test_by_sign_flips() -> None:
    losses = [0.3, -0.1, 0.5, 0.2, 0.4]
    alone = redrawn([[loss] for loss in losses])
    single = PairColumns.fresh(losses)
    assert relabelled_p(alone, np.random.default_rng(0)) == relabelled_p(single, np.random.default_rng(0))


def test_one_odd_image_is_no_finding_however_often_it_is_drawn() -> None:
    odd = redrawn([[0.9] * 6, [0.02, -0.02] * 3])
    (test,) = confirm([odd], [False], generators(1))
    assert (test.p_adjusted < 0.05, test.mean > 0.4, test.confirmed) == (True, True, False)
    both, two_of_four = redrawn([[0.9] * 6, [0.2] * 6]), redrawn([[0.9] * 3] * 2 + [[0.02, -0.02, 0.0]] * 2)
    tests = confirm([both, two_of_four], [False, False], generators(2))
    assert [test.confirmed for test in tests] == [True, False]


def test_each_image_weighs_one_however_many_draws_were_kept() -> None:
    uneven = redrawn([[0.8] * 5, [0.2]])
    assert uneven.mean == pytest.approx(0.5)
    loss = mean_loss(uneven, np.random.default_rng(0))
    assert loss.estimate == pytest.approx(0.5)
    assert loss.n == 6
    assert loss.low is not None
    assert loss.high is not None
    assert -1.0 <= loss.low < 0.5 < loss.high <= 1.0


@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_the_interval_over_draws_covers_the_mean_of_these_images(effect: float) -> None:
    """Images differ in their loss: 95 % of the intervals hold the mean over these very images."""
    generator, covered = np.random.default_rng(3), 0
    for _ in range(300):
        true = np.clip(effect + generator.normal(0, 0.2, 3), -0.4, 0.5)
        losses = [list(each + generator.choice([-0.4, 0.1], 4, p=[0.2, 0.8])) for each in true]
        loss = mean_loss(redrawn(losses), generator)
        covered += (loss.low or 0.0) <= true.mean() <= (loss.high or 0.0)
    assert stats.binomtest(covered, 300, 0.95, alternative="less").pvalue > 0.01


def test_exchangeable_draws_are_called_harmful_at_most_as_often_as_stated() -> None:
    """Images differ from each other as much as they like: only labels within one are exchanged."""
    generator = np.random.default_rng(4)
    called = 0
    for _ in range(400):
        images = generator.normal(0.5, 0.2, (3, 1)) + np.where(generator.random((3, 8)) < 0.15, -0.4, 0.0)
        sources = np.repeat(["a", "b", "c"], 4).tolist()
        pairs = PairColumns.of(sources, images[:, :4].ravel(), images[:, 4:].ravel(), redrawn=True)
        called += relabelled_p(pairs, generator) <= 0.05
    assert stats.binomtest(called, 400, 0.05, alternative="greater").pvalue > 0.01


def test_evidence_grows_with_every_loss_and_never_turns_negative() -> None:
    grown = [e_value([0.6] * n) for n in range(12)]
    assert grown[0] == 1.0
    assert all(after > before for before, after in itertools.pairwise(grown))
    assert e_value([-1.0] * 30) > 0.0


def test_evidence_does_not_look_at_the_pair_that_it_bets_on() -> None:
    first = e_value([0.5]) - 1.0
    # The first bet is fixed in advance, so the first factor is linear in the first loss.
    assert e_value([-0.5]) - 1.0 == pytest.approx(-first)
    assert e_value([1.0]) - 1.0 == pytest.approx(2 * first)


@pytest.mark.parametrize("skewed", [False, True])
def test_evidence_of_nothing_is_rare_at_any_moment_of_looking(skewed: bool) -> None:
    """Ville: at most 5 % of the runs ever reach 20, though one looks after each of 30 pairs."""
    generator, runs = np.random.default_rng(5), 400
    reached = 0
    for _ in range(runs):
        if skewed:
            losses = np.where(generator.random(30) < 0.1, 0.9, -0.1)
        else:
            losses = np.clip(generator.normal(0, 0.4, 30), -1, 1)
        reached += max(e_value(losses[:n]) for n in range(1, 31)) >= 20.0
    assert stats.binomtest(reached, runs, 0.05, alternative="greater").pvalue > 0.01


def simulated(runs: int, n_sources: int, hypotheses: int, **changes: object) -> list[Outcome]:
    """Two-stage runs in simulated worlds."""
    worlds = (World(np.random.default_rng(seed), **changes) for seed in range(runs))  # type: ignore[arg-type]
    return [two_stages(world, n_sources, hypotheses) for world in worlds]


@pytest.mark.parametrize(
    ("n_sources", "hypotheses", "least", "most"), [(48, 8, 0.35, 0.7), (96, 12, 0.6, 0.9)]
)
def test_two_stages_find_about_as_many_bugs_as_the_audit_measured(
    n_sources: int, hypotheses: int, least: float, most: float
) -> None:
    """The audit's own world: 0.50 at 48 source images with 8 hypotheses, 0.73 at 96 with 12."""
    outcomes = simulated(15, n_sources, hypotheses)
    recall = sum(outcome.found for outcome in outcomes) / sum(outcome.bugs for outcome in outcomes)
    assert least <= recall <= most
    assert sum(outcome.false > 0 for outcome in outcomes) <= 3


@pytest.mark.parametrize("noise", ["normal", "rare"])
def test_without_bugs_hardly_a_run_confirms_anything(noise: Noise) -> None:
    """At most 5 % of the runs; the screen's winners are regressions to the mean, and fresh pairs show it."""
    outcomes = simulated(30, 48, 8, n_bugs=0, noise=noise)
    assert sum(len(outcome.tests) for outcome in outcomes) > 100
    false = sum(outcome.false > 0 for outcome in outcomes)
    assert stats.binomtest(false, len(outcomes), 0.05, alternative="greater").pvalue > 0.01


def test_what_the_second_stage_estimates_is_not_inflated_by_the_choice() -> None:
    """The screen overstates what it chose; the mean of fresh pairs does not (audit: -0.005 to 0.010)."""
    tests = [each for outcome in simulated(10, 96, 8) for each in outcome.tests]
    true_loss = np.mean([test.mean for _, test, true in tests if true and not test.stopped])
    screened = np.mean([candidate.loss for candidate, test, true in tests if true and not test.stopped])
    assert screened > true_loss + 0.03
