"""P-values by sign flips, and their corrections."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from counterpose_core.statistics.p_values import benjamini_hochberg, holm, rejectable, sign_flip_p


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_sign_flips_are_exact_for_few_sources() -> None:
    values = [0.3, 0.1, -0.2, 0.4, 0.25]
    flips = [np.mean(np.multiply(values, signs)) for signs in itertools.product((1, -1), repeat=5)]
    expected = np.mean([mean >= np.mean(values) - 1e-12 for mean in flips])
    assert sign_flip_p(values, generator()) == expected


def test_sampled_sign_flips_agree_with_the_exact_p() -> None:
    values = list(generator(8).normal(0.2, 0.5, size=14))
    exact = sign_flip_p(values, generator())
    repeated = sign_flip_p([*values, 0.0], generator(9), draws=40_000)
    assert repeated == pytest.approx(exact, abs=0.01)
    assert sign_flip_p([1.0] * 40, generator(), draws=100) == pytest.approx(1 / 101)


def test_no_sources_give_no_evidence() -> None:
    assert sign_flip_p([], generator()) == 1.0


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_benjamini_hochberg_steps_up() -> None:
    # Sorted: 0.005*4/1, 0.01*4/2, 0.03*4/3, 0.04*4/4, each capped by the next.
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert benjamini_hochberg([0.9]) == [0.9]


def test_benjamini_hochberg_follows_its_definition() -> None:
    p_values = np.array(generator(10).uniform(size=20) ** 3)
    by_definition = [
        min(min(1.0, p * 20 / int(np.sum(p_values <= p))) for p in p_values[p_values >= own])
        for own in p_values
    ]
    assert benjamini_hochberg(list(p_values)) == pytest.approx(by_definition)


def test_benjamini_hochberg_of_no_hypotheses_is_empty() -> None:
    assert benjamini_hochberg([]) == []


def test_benjamini_hochberg_gives_ties_equal_values() -> None:
    assert benjamini_hochberg([0.02, 0.02, 0.02, 0.8]) == pytest.approx([0.08 / 3] * 3 + [0.8])


def test_benjamini_hochberg_rejects_nothing_if_any_p_is_unknown() -> None:
    assert all(math.isnan(adjusted) for adjusted in benjamini_hochberg([0.001, math.nan, 0.5]))


def test_sources_with_several_images_are_permuted_instead_of_flipped() -> None:
    options = [np.array([0.4, -0.1, -0.3]), np.array([0.6, -0.6])]
    values = [0.2, -0.1]
    totals = [
        a + b + c * values[0] + d * values[1] for a, b, c, d in itertools.product(*options, (1, -1), (1, -1))
    ]
    expected = np.mean([total >= totals[0] - 1e-12 for total in totals])
    found = sign_flip_p(values, generator(11), relabelled=options, draws=20_000)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("options", [3, 300])
def test_sampled_labellings_agree_with_the_normal_limit(options: int) -> None:
    draw = generator(14)
    relabelled = [np.sort(draw.normal(size=options))[::-1] * (1 if index % 2 else -1) for index in range(60)]
    centred = [values - values.mean() for values in relabelled]
    spread = math.sqrt(sum(float(values.var()) for values in centred))
    expected = stats.norm.sf(sum(values[0] for values in centred) / spread)
    assert sign_flip_p([], generator(15), relabelled=centred) == pytest.approx(expected, abs=0.03)


def test_only_hypotheses_that_can_be_rejected_are_members() -> None:
    """Tarone's K is 2: two hypotheses have a least p of 0.05 / 2 or less, three one of 0.05 or less."""
    assert rejectable([0.001, 0.02, 0.04, 0.3], 0.05).tolist() == [True, True, False, False]
    assert rejectable([0.03, 0.04], 0.05).tolist() == [False, False]
    assert rejectable([0.05], 0.05).tolist() == [True]
    assert rejectable([], 0.05).tolist() == []


def test_a_family_never_has_more_members_than_its_correction_allows() -> None:
    for seed in range(50):
        least = 2.0 ** -generator(seed).integers(1, 15, size=80)
        members = rejectable(least, 0.05)
        assert np.all(least[members] <= 0.05 / max(1, members.sum()))


def test_many_sources_are_flipped_in_bounded_memory() -> None:
    values = generator(12).normal(0.0, 1.0, size=40_000)
    expected = stats.norm.sf(values.sum() / np.sqrt(np.sum(values**2)))
    assert sign_flip_p(values, generator(13), draws=1500) == pytest.approx(expected, abs=0.05)
