"""Fréchet and kernel distance on known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.errors import NumericalFailure
from counterpose_core.images.realism import (
    FrechetDistance,
    Refused,
    Sources,
    frechet_corrected,
    frechet_distance,
    halves,
    kernel_distance,
)
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.types import Estimate


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def images(n: int, d: int = 2, seed: int = 0, shift: float = 0.0) -> Floats:
    return generator(seed).normal(shift, 1.0, (n, d))


def gaussian(mean: list[float], covariance: list[list[float]], n: int = 40, seed: int = 0) -> Floats:
    """Features whose sample mean and covariance are exactly these."""
    noise = images(n, len(mean), seed)
    noise -= noise.mean(axis=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(noise, rowvar=False)))).T
    return np.asarray(white @ np.linalg.cholesky(np.array(covariance)).T + np.array(mean))


def frechet(real: Floats, generated: Floats) -> float:
    found = frechet_distance(real, generated)
    assert isinstance(found, FrechetDistance)
    return found.distance


def kernel(
    real: Floats, generated: Floats, sources: Sources | None = None, *, seed: int = 0, block: int = 2000
) -> Estimate:
    found = kernel_distance(real, generated, generator(seed), sources=sources, block=block)
    assert isinstance(found, Estimate)
    return found


def figure(found: Estimate) -> tuple[float, float, float]:
    assert found.estimate is not None
    assert found.low is not None
    assert found.high is not None
    return found.estimate, found.low, found.high


def unbiased(first: Floats, second: Floats) -> float:
    """The discrepancy of features (n, 1) and (m, 1), where (xy + 1)³ is a sum over their powers."""
    total = 0.0
    for power in range(4):
        a, b = first[:, 0] ** power, second[:, 0] ** power
        within = [(c.sum() ** 2 - (c**2).sum()) / (c.size * (c.size - 1)) for c in (a, b)]
        total += math.comb(3, power) * (sum(within) - 2.0 * a.mean() * b.mean())
    return total


def test_frechet_matches_the_closed_form_for_gaussians_with_shared_axes() -> None:
    real = gaussian([0.0, 1.0], [[4.0, 0.0], [0.0, 1.0]])
    generated = gaussian([3.0, 5.0], [[9.0, 0.0], [0.0, 0.25]], seed=1)
    assert frechet(real, generated) == pytest.approx(3**2 + 4**2 + (2 - 3) ** 2 + (1 - 0.5) ** 2)


def test_frechet_matches_the_closed_form_for_gaussians_with_different_axes() -> None:
    first, second = np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([[1.0, -0.5], [-0.5, 3.0]])
    product = first @ second
    # The trace of the root of a 2 x 2 matrix, by its trace and determinant.
    root = math.sqrt(np.trace(product) + 2.0 * math.sqrt(np.linalg.det(product)))
    found = frechet(gaussian([0.0, 0.0], first.tolist()), gaussian([1.0, 0.0], second.tolist(), seed=1))
    assert found == pytest.approx(1.0 + np.trace(first + second) - 2.0 * root)


def test_frechet_of_one_feature_matches_the_closed_form() -> None:
    assert frechet(gaussian([1.0], [[4.0]]), gaussian([3.0], [[9.0]], seed=1)) == pytest.approx(5.0)


def test_frechet_of_a_set_with_itself_is_0() -> None:
    real = images(60, 6)
    assert frechet(real, real) == pytest.approx(0.0, abs=1e-12)


def test_frechet_is_accurate_for_very_unequal_variances() -> None:
    turned, _ = np.linalg.qr(images(6, 6, seed=1))
    real = (images(60, 6) * np.logspace(0, -9, 6)) @ turned
    expected = float(np.sum(real.mean(axis=0) ** 2) + np.trace(np.cov(real, rowvar=False)))
    assert frechet(real, 2.0 * real) == pytest.approx(expected, rel=1e-12)


def test_frechet_of_linearly_dependent_features_is_finite() -> None:
    real = np.repeat(gaussian([0.0], [[1.0]]), 3, axis=1)
    generated = np.repeat(gaussian([0.0], [[4.0]], seed=1), 3, axis=1)
    assert frechet(real, generated) == pytest.approx(3.0)


@pytest.mark.parametrize("distance", [frechet, lambda *sets: figure(kernel(*sets))[0]])
def test_a_larger_shift_gives_a_larger_distance(distance: object) -> None:
    assert callable(distance)
    found = [distance(images(60), images(60, seed=1, shift=shift)) for shift in (0.0, 0.5, 1.0, 2.0)]
    assert found == sorted(found)
    assert found[3] > found[0] + 1.0


@pytest.mark.parametrize("distance", [frechet, lambda *sets: figure(kernel(*sets))[0]])
def test_distances_do_not_depend_on_the_order_of_images_features_or_sets(distance: object) -> None:
    assert callable(distance)
    real, generated = images(60, 3), images(50, 3, seed=1, shift=0.5)
    shuffled = generator(2).permutation(real)[:, [2, 0, 1]], generator(3).permutation(generated)[:, [2, 0, 1]]
    expected = pytest.approx(distance(real, generated))
    assert distance(*shuffled) == expected
    assert distance(generated, real) == expected


def test_frechet_is_refused_below_five_images_per_feature() -> None:
    found = frechet_distance(images(30, 4), images(19, 4))
    assert found == Refused(
        "the Fréchet distance needs 20 images in each set (5 x 4 features), not 19", n=19, least=20
    )
    assert isinstance(frechet_distance(images(30, 4), images(20, 4)), FrechetDistance)


def test_frechet_reports_its_numbers_of_images_and_features() -> None:
    found = frechet_distance(images(30, 4), images(25, 4))
    assert isinstance(found, FrechetDistance)
    assert (found.n_real, found.n_generated, found.width) == (30, 25, 4)


def test_kernel_distance_is_the_mean_over_pairs_of_different_images() -> None:
    real, generated = images(25, 1), images(31, 1, seed=1, shift=0.4)
    assert kernel(real, generated).estimate == pytest.approx(unbiased(real, generated))


def test_kernel_distance_divides_the_product_by_the_width() -> None:
    real, generated = images(25, 1), images(31, 1, seed=1, shift=0.4)
    fourfold = kernel(np.repeat(real, 4, axis=1), np.repeat(generated, 4, axis=1))
    assert fourfold.estimate == pytest.approx(unbiased(real, generated))


def test_kernel_distance_of_one_distribution_is_0_on_average() -> None:
    found = [figure(kernel(images(20, 2, seed), images(20, 2, seed + 900)))[0] for seed in range(60)]
    assert abs(np.mean(found)) < 3.0 * np.std(found) / math.sqrt(60)
    assert min(found) < 0.0 < max(found)


def test_kernel_distance_of_shifted_gaussians_averages_to_the_closed_form() -> None:
    truth = 3 * 0.5**2 + 3 * 0.5**4 + (0.5**3 + 3 * 0.5) ** 2
    found = [figure(kernel(images(40, 1, s), images(40, 1, s + 900, 0.5)))[0] for s in range(60)]
    assert np.mean(found) == pytest.approx(truth, abs=3.0 * float(np.std(found)) / math.sqrt(60))


def test_kernel_distance_of_images_from_themselves_is_0() -> None:
    names = [f"{number}" for number in range(30)]
    assert figure(kernel(images(30), images(30), (names, names))) == pytest.approx((0.0, 0.0, 0.0))


def test_kernel_distance_of_derived_images_is_unbiased_given_their_sources() -> None:
    """Each source has two generated images, near to it, of the same distribution as it."""
    names = [f"{number}" for number in range(20)]
    found: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(40):
        real = images(20, 2, seed)
        generated = 0.8 * np.concatenate([real, real]) + 0.6 * images(40, 2, seed + 900)
        for known in found:
            sources = (names, names + names) if known else None
            found[known].append(figure(kernel(real, generated, sources))[0])
    assert abs(np.mean(found[True])) < 3.0 * np.std(found[True]) / math.sqrt(40)
    assert np.mean(found[False]) < -3.0 * np.std(found[False]) / math.sqrt(40)


def test_the_interval_covers_the_truth_in_most_draws() -> None:
    truth = 3 * 0.3**2 + 3 * 0.3**4 + (0.3**3 + 3 * 0.3) ** 2
    ends = [figure(kernel(images(60, 1, s), images(60, 1, s + 900, 0.3)))[1:] for s in range(50)]
    assert 43 <= sum(low <= truth <= high for low, high in ends) <= 50


def test_many_images_are_split_into_random_blocks() -> None:
    real, generated = images(110, 1), images(110, 1, seed=1, shift=0.5)
    first, again, other = (kernel(real, generated, seed=seed, block=100) for seed in (0, 0, 1))
    assert first == again != other
    low, high = figure(first)[1:]
    assert low < unbiased(real, generated) < high
    assert first.n == 110
    whole = figure(kernel(real, generated))
    assert 0.7 < (high - low) / (whole[2] - whole[1]) < 1.5


def test_a_small_set_next_to_a_large_one_stays_in_one_block() -> None:
    real, generated = images(25, 1), images(210, 1, seed=1, shift=0.5)
    assert kernel(real, generated, block=50).estimate == pytest.approx(unbiased(real, generated))


def test_kernel_distance_is_refused_below_20_sources() -> None:
    names = [f"{number}" for number in range(30)]
    few = [f"{number % 19}" for number in range(30)]
    found = kernel_distance(images(30), images(30), generator(), sources=(names, few))
    assert found == Refused("the kernel distance needs 20 sources in each set, not 19", n=19, least=20)
    assert kernel(images(20), images(30)).n == 20


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_features_that_are_not_finite_are_an_error(bad: float) -> None:
    broken = images(30)
    broken[3, 1] = bad
    with pytest.raises(NumericalFailure, match="not finite"):
        frechet_distance(images(30), broken)
    with pytest.raises(NumericalFailure, match="not finite"):
        kernel_distance(broken, images(30), generator())


def test_features_of_different_shapes_are_an_error() -> None:
    with pytest.raises(ValueError, match="width 2 and 3"):
        frechet_distance(images(30, 2), images(30, 3))
    with pytest.raises(ValueError, match=r"\(30,\)"):
        frechet_distance(images(30)[:, 0], images(30))
    with pytest.raises(ValueError, match="30 and 1 sources for 30 and 30 images"):
        kernel_distance(images(30), images(30), generator(), sources=(["a"] * 30, ["a"]))


def test_halves_contain_every_image_once() -> None:
    first, second = halves(np.arange(7.0)[:, None], generator())
    assert (len(first), len(second)) == (4, 3)
    assert sorted([*first[:, 0], *second[:, 0]]) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("n", "shift"), [(40, 0.5), (160, 0.5), (80, 0.0)])
def test_the_corrected_frechet_distance_has_little_bias_and_its_interval_holds_the_truth(
    n: int, shift: float
) -> None:
    width, rounds, truth = 4, 60, 4 * shift**2
    found, raw, held = list[float](), list[float](), 0
    for seed in range(rounds):
        real, generated = images(n, width, seed), images(n, width, 1000 + seed, shift)
        estimate, low, high = figure_of(real, generated, seed)
        found.append(estimate)
        raw.append(frechet(real, generated))
        held += low <= truth <= high
    assert held >= 0.85 * rounds
    assert abs(np.mean(found) - truth) < 0.35 * abs(np.mean(raw) - truth)


def figure_of(real: Floats, generated: Floats, seed: int) -> tuple[float, float, float]:
    found = frechet_corrected(real, generated, generator(seed))
    assert isinstance(found, Estimate)
    assert found.n == len(generated)
    return figure(found)


def test_too_few_images_have_no_corrected_distance() -> None:
    found = frechet_corrected(images(9), images(50), generator())
    assert isinstance(found, Refused)
    assert (found.n, found.least) == (9, 10)
