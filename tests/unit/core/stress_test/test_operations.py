"""What operations cost: the sign test, the level from which a loss is shown, and errors over a family."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from counterpose_core.statistics.p_values import holm
from counterpose_core.stress_test.operations import (
    PairedAnswers,
    _shown,
    least_lost,
    least_units,
    operation_tests,
)


def paired(lost: int, gained: int, n: int = 54, right: int = 47) -> PairedAnswers:
    """Answers of photographs that stand alone."""
    before = np.arange(n) < right
    after = before.copy()
    after[:lost] = False
    after[right : right + gained] = True
    return PairedAnswers(np.arange(n), before, after)


def one_each(counts: dict[str, tuple[int, int]]) -> dict[str, bool]:
    answers = {("net", name): {1: paired(*pair)} for name, pair in counts.items()}
    generators = {key: np.random.default_rng(0) for key in answers}
    return {name: tests[0].shown for (_, name), tests in operation_tests(answers, generators).items()}


@pytest.mark.parametrize(("lost", "gained"), [(12, 3), (11, 2), (40, 0), (0, 2), (4, 4), (1, 0)])
def test_photographs_that_stand_alone_are_tested_by_the_sign_test(lost: int, gained: int) -> None:
    answers = paired(lost, gained)
    expected = scipy.stats.binomtest(lost, lost + gained).pvalue
    assert answers.p(np.random.default_rng(0)) == pytest.approx(expected)
    assert (answers.lost, answers.gained) == (lost, gained)


def test_six_of_fifteen_changes_of_one_network_are_shown_on_54_cut_outs() -> None:
    counts = {
        "white": (5, 3), "black": (7, 3), "grass": (8, 2), "gravel": (4, 4), "brick": (12, 3),
        "coffee": (33, 0), "rocket": (9, 4), "blur-2": (18, 1), "blur-4": (40, 0), "greyscale": (11, 2),
        "jpeg": (20, 1),
        "dark": (4, 1), "rotated": (13, 1), "upside-down": (26, 1), "mirrored": (0, 2),
    }  # fmt: skip
    shown = {name for name, is_shown in one_each(counts).items() if is_shown}
    assert shown == {"coffee", "blur-2", "blur-4", "jpeg", "rotated", "upside-down"}


def test_a_change_that_loses_nothing_excludes_a_loss_of_a_tenth_and_a_gain_is_no_loss() -> None:
    answers = {("net", "mirrored"): {1: paired(0, 2)}, ("net", "helps"): {1: paired(0, 7)}}
    found = operation_tests(answers, {key: np.random.default_rng(0) for key in answers})
    [mirrored], [helps] = found["net", "mirrored"], found["net", "helps"]
    assert mirrored.is_harmless
    assert helps.p < 0.05
    assert not helps.shown


def test_the_level_from_which_a_loss_is_shown_has_all_harder_ones_above_it() -> None:
    # Level 2 looks worse than level 3, which shows nothing: the sequence ends at level 4.
    by_level = {1: paired(1, 0), 2: paired(20, 0), 3: paired(2, 1), 4: paired(15, 0), 5: paired(30, 0)}
    answers = {("net", "blur"): by_level}
    (tests,) = operation_tests(answers, {("net", "blur"): np.random.default_rng(0)}).values()
    assert [test.level for test in tests] == [1, 2, 3, 4, 5]
    assert [test.shown for test in tests] == [False, False, False, True, True]


def test_frames_of_one_photograph_count_once() -> None:
    alone = paired(10, 0, n=20, right=20)
    frames = PairedAnswers(np.repeat([0, 1], 10), alone.before, alone.after)
    assert alone.p(np.random.default_rng(0)) < 0.01
    assert frames.p(np.random.default_rng(0)) == 1.0
    assert frames.loss(np.random.default_rng(0)).n == 2
    halves = PairedAnswers(np.repeat(np.arange(10), 2), alone.before, np.arange(20) % 2 == 0)
    assert halves.p(np.random.default_rng(0)) == pytest.approx(2 / 2**10)


def drawn(n: int, loss: float, gain: float, generator: np.random.Generator) -> PairedAnswers:
    lost, gained, _ = generator.multinomial(n, [loss + gain, gain, 1.0 - loss - 2.0 * gain]).tolist()
    return paired(lost, gained, n, right=n - gained)


def test_losses_of_exactly_the_least_loss_give_a_finding_in_no_more_runs_than_the_level_says() -> None:
    generator, false, real = np.random.default_rng(8), 0, 0
    for _ in range(250):
        gains = generator.choice([0.0, 0.01, 0.03, 0.08], 12)
        answers = {("net", str(at)): {1: drawn(96, 0.05, gain, generator)} for at, gain in enumerate(gains)}
        tests = operation_tests(answers, {key: np.random.default_rng(0) for key in answers}, 0.05)
        false += any(test.shown for levels in tests.values() for test in levels)
        real += any(test.real for levels in tests.values() for test in levels)
    assert false / 250 <= 0.05
    # Of the same answers, some are shown to be lost, though no finding.
    assert real / 250 > 0.1


def test_a_loss_may_be_real_and_no_finding_and_the_least_loss_of_0_asks_for_no_more() -> None:
    answers = {("net", "blur"): {1: paired(12, 0, 480, 440)}, ("net", "dark"): {1: paired(90, 2, 480, 440)}}
    generators = {key: np.random.default_rng(0) for key in answers}
    [blur], [dark] = operation_tests(answers, generators, 0.05).values()
    assert (blur.real, blur.shown, dark.real, dark.shown) == (True, False, True, True)
    assert blur.p == 1.0
    plain = operation_tests(answers, generators)
    assert [(test.shown, test.real) for (test,) in plain.values()] == [(True, True)] * 2
    assert plain["net", "blur"][0].p == answers["net", "blur"][1].p(generators["net", "blur"])


def test_frames_of_one_photograph_are_held_against_the_least_loss_by_bets() -> None:
    whole = paired(40, 0, n=40, right=40)
    frames = PairedAnswers(np.repeat(np.arange(20), 2), whole.before, whole.after)
    # A bet of everything on each of twenty groups, which half of the capital makes.
    assert frames.p_of_at_most(0.05) == pytest.approx(4 * 0.525**20, rel=0.1)
    halves = PairedAnswers(np.repeat(np.arange(20), 2), whole.before, np.arange(40) % 16 != 0)
    assert halves.p_of_at_most(0.05) > 0.2


@pytest.mark.parametrize(("least", "units"), [(0.0, 96), (0.05, 5), (0.05, 10), (0.05, 96), (0.2, 300)])
def test_so_many_lost_images_show_a_loss_and_one_fewer_do_not(least: float, units: int) -> None:
    found = least_lost(20, least, units)
    n = max(found, units)

    def p(lost: int) -> float:
        answers = paired(lost, 0, n, n)
        return answers.p_of_at_most(least) if least else answers.p(np.random.default_rng(0))

    assert p(found) <= 0.05 / 20
    if found <= units or not least:
        assert p(found - 1) > 0.05 / 20


def test_of_single_levels_the_correction_is_holm_s() -> None:
    generator = np.random.default_rng(4)
    for _ in range(200):
        p = (generator.random(6) ** 4).tolist()
        rejected = _shown({("net", str(at)): [value] for at, value in enumerate(p)})
        assert [bool(count) for count in rejected.values()] == [value <= 0.05 for value in holm(p)]


@pytest.mark.parametrize("hurts", [0, 3])
def test_the_hardest_level_alone_keeps_the_family_s_level(hurts: int) -> None:
    generator = np.random.default_rng(6)
    false = 0
    for _ in range(4000):
        p = {("net", str(at)): generator.random(5).tolist() for at in range(10)}
        p |= {("net", f"hurts-{at}"): [1e-6] * 5 for at in range(hurts)}
        false += any(count for (_, name), count in _shown(p).items() if not name.startswith("hurts"))
    assert 0.035 < false / 4000 < 0.06


def test_a_class_is_tested_only_where_losing_all_of_its_images_would_show_a_loss() -> None:
    # One network and twenty operations on 54 photographs of 52 classes: the largest has three.
    alone = [1] * 51 * 20 + [3] * 20
    least = least_units(alone, operations=20)
    assert (least, max(alone)) == (10, 3)
    all_lost = paired(least, 0, least, least)
    assert all_lost.p(np.random.default_rng(0)) <= 0.05 / 20 < paired(9, 0, 9, 9).p(np.random.default_rng(0))


def test_a_class_takes_more_images_where_a_loss_must_exceed_a_least_one() -> None:
    assert (least_units([3] * 20, 20), least_units([3] * 20, 20, 0.05)) == (10, 11)
    all_lost = paired(11, 0, 11, 11)
    assert all_lost.p_of_at_most(0.05) <= 0.05 / 20 < paired(10, 0, 10, 10).p_of_at_most(0.05)


@pytest.mark.parametrize("sizes", [[12] * 20, [12] * 60, [10] * 20 + [14] * 20, [8, 9, 10, 11, 12] * 40, []])
def test_the_least_units_fit_the_number_of_tests_that_they_leave(sizes: list[int]) -> None:
    least = least_units(sizes, operations=20)
    tested = sum(size >= least for size in sizes)
    assert least >= least_lost(tested)
    # No smaller number does.
    assert all(
        smaller < max(least_lost(20), least_lost(sum(size >= smaller for size in sizes)))
        for smaller in range(1, least)
    )
