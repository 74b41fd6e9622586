"""The drop beyond the placebo: the subtraction, its uncertainty, and the detectable drop."""

from __future__ import annotations

import numpy as np
import pytest

from faultline_core.statistics.bootstrap import Floats
from faultline_core.statistics.contrast import LEAST_PLACEBOS, Contrast, PlaceboEffects


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def single(parts: Floats) -> Contrast:
    """A contrast of sources with one edit each and placebos known to be 0."""
    return Contrast(parts, parts.size, parts)


def named(values: list[float], name: str = "sled") -> dict[str, float]:
    return {f"{name}-{index}": value for index, value in enumerate(values)}


def classes(*effects: dict[str, float]) -> dict[str, str]:
    return {source: source.split("-")[0] for found in effects for source in found}


def test_the_mean_placebo_effect_of_the_class_is_subtracted() -> None:
    sled, boat = named([0.1, 0.2, 0.1, 0.2, 0.15]), named([0.4] * 5, "boat")
    effects = PlaceboEffects(classes(sled, boat), sled | boat)
    alone = effects.contrast({"sled-0": [0.5], "sled-1": [0.7]})
    assert alone is not None
    assert alone.mean == pytest.approx(0.6 - 0.15)
    both = effects.contrast({"sled-0": [0.5], "boat-0": [0.4, 0.6]})
    assert both is not None
    assert both.mean == pytest.approx(0.5 - (0.15 + 0.4) / 2)
    assert both.n == 2


def test_a_class_with_too_few_placebos_uses_those_of_all_classes() -> None:
    sled, boat = named([0.9] * (LEAST_PLACEBOS - 1)), named([0.1] * 6, "boat")
    contrast = PlaceboEffects(classes(sled, boat), sled | boat).contrast({"sled-0": [0.5]})
    assert contrast is not None
    assert contrast.mean == pytest.approx(0.5 - (4 * 0.9 + 6 * 0.1) / 10)


def test_without_placebos_or_drops_there_is_no_contrast() -> None:
    few = named([0.0] * (LEAST_PLACEBOS - 1))
    assert PlaceboEffects(classes(few), few).contrast({"sled-0": [0.5]}) is None
    enough = named([0.0] * LEAST_PLACEBOS)
    assert PlaceboEffects(classes(enough), enough).contrast({}) is None


def test_noisy_placebos_weaken_the_evidence() -> None:
    drops = {source: [0.3] for source in named([0.0] * 10)}
    known = dict.fromkeys(named([0.0] * 10), "sled") | {f"other-{index}": "sled" for index in range(10)}
    sure = {f"other-{index}": 0.0 for index in range(10)}
    unsure = {f"other-{index}": 0.9 * (-1) ** index for index in range(10)}
    p_values = []
    for effects in (sure, unsure):
        contrast = PlaceboEffects(known, effects).contrast(drops)
        assert contrast is not None
        assert contrast.mean == pytest.approx(0.3)
        p_values.append(contrast.p(generator()))
    assert p_values[0] == pytest.approx(2**-10, rel=0.5)
    assert p_values[1] > 10 * p_values[0]


def test_the_interval_contains_the_difference_and_counts_sources() -> None:
    placebos = named(list(generator(1).normal(0.0, 0.1, 30)))
    drops = {source: [drop] for source, drop in named(list(generator(2).normal(0.2, 0.1, 20))).items()}
    contrast = PlaceboEffects(classes(placebos), placebos).contrast(drops)
    assert contrast is not None
    figure = contrast.estimate(generator())
    assert figure.estimate == pytest.approx(contrast.mean)
    assert figure.n == 20
    assert figure.low is not None
    assert figure.high is not None
    half = (figure.high - figure.low) / 2
    assert half == pytest.approx(2.09 * 0.1 * np.sqrt(1 / 20 + 1 / 30), rel=0.35)


@pytest.mark.parametrize(("n", "level"), [(20, 0.05), (40, 0.05), (40, 0.005)])
def test_the_detectable_drop_has_a_power_of_80_percent(n: int, level: float) -> None:
    draw, found, runs = generator(n), 0, 200
    for _ in range(runs):
        noise = draw.normal(0.0, 0.25, size=n)
        noise *= 0.25 / noise.std(ddof=1)
        drop = single(noise - noise.mean()).detectable(level)
        assert drop is not None
        shifted = single(drop + draw.normal(0.0, 0.25, size=n))
        found += shifted.p(draw, draws=1000) <= level
    assert 0.71 <= found / runs <= 0.89


def test_with_unanimous_sources_the_detectable_drop_is_binomial() -> None:
    same = single(np.zeros(20))
    drop = same.detectable(0.05)
    assert drop is not None
    dropping = generator(3).binomial(20, drop, size=4000)
    assert np.mean(0.5**dropping <= 0.05) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("n", "level"), [(1, 0.05), (4, 0.05), (20, 1e-9)])
def test_too_few_sources_have_no_detectable_drop(n: int, level: float) -> None:
    spread = generator(4).normal(0.0, 0.2, size=n)
    assert single(spread).detectable(level) is None
    assert single(np.zeros(n)).detectable(level) is None


def test_a_detectable_drop_above_one_is_unknown() -> None:
    assert single(np.array([1.0, -1.0] * 5)).detectable(0.01) is None


@pytest.mark.parametrize("edits", [1, 4])
def test_edits_equivalent_to_placebos_are_rarely_called_harmful(edits: int) -> None:
    """Side effects are skewed, one source in six has no placebo and one no edit; the level is 5 %."""
    draw, found, runs = generator(6), 0, 250
    for _ in range(runs):
        own = draw.normal(0.0, 0.05, size=30)
        costs = own[:, None] + 0.5 * draw.beta(0.5, 3.0, size=(30, edits + 1))
        placebos = named(list(costs[:25, 0]))
        drops = {f"sled-{index}": list(costs[index, 1:]) for index in range(5, 30)}
        contrast = PlaceboEffects(dict.fromkeys(named([0.0] * 30), "sled"), placebos).contrast(drops)
        assert contrast is not None
        found += contrast.p(draw, draws=500) <= 0.05
    assert 0.01 <= found / runs <= 0.09


def test_the_placebo_is_permuted_among_the_images_of_a_source() -> None:
    """Two sources x three images: the truth is the best of nine labellings."""
    placebos = named([0.0] * 8) | {"sled-0": -0.5, "sled-1": -0.5}
    alone = PlaceboEffects(dict.fromkeys(placebos, "sled"), placebos)
    contrast = alone.contrast({"sled-0": [0.3, 0.4], "sled-1": [0.3, 0.4]})
    assert contrast is not None
    assert [options.size for options in contrast.relabelled] == [3, 3]
    observed = contrast.flipped.sum() + sum(options[0] for options in contrast.relabelled)
    assert observed == pytest.approx(contrast.parts.sum()) == pytest.approx(2 * contrast.mean)
    assert all(options.sum() == pytest.approx(0.0) for options in contrast.relabelled)
    assert contrast.p(generator()) >= 1 / 9 * 0.5
