"""A drop beyond the placebo's: what is subtracted, what counts as uncertain, what would be found."""

from __future__ import annotations

import numpy as np
import pytest

from faultline_core.significance import LEAST_PLACEBOS, Contrast, PlaceboEffects


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def named(values: list[float], name: str = "sled") -> dict[str, float]:
    return {f"{name}-{index}": value for index, value in enumerate(values)}


def classes(*effects: dict[str, float]) -> dict[str, str]:
    return {source: source.split("-")[0] for found in effects for source in found}


def test_the_mean_placebo_effect_of_the_class_is_subtracted() -> None:
    sled, boat = named([0.1, 0.2, 0.1, 0.2, 0.15]), named([0.4] * 5, "boat")
    effects = PlaceboEffects(classes(sled, boat), sled | boat)
    alone = effects.contrast({"sled-0": 0.5, "sled-1": 0.7})
    assert alone is not None
    assert alone.mean == pytest.approx(0.6 - 0.15)
    both = effects.contrast({"sled-0": 0.5, "boat-0": 0.5})
    assert both is not None
    assert both.mean == pytest.approx(0.5 - (0.15 + 0.4) / 2)
    assert both.n == 2


def test_a_class_with_too_few_placebos_is_held_against_all_classes() -> None:
    sled, boat = named([0.9] * (LEAST_PLACEBOS - 1)), named([0.1] * 6, "boat")
    contrast = PlaceboEffects(classes(sled, boat), sled | boat).contrast({"sled-0": 0.5})
    assert contrast is not None
    assert contrast.mean == pytest.approx(0.5 - (4 * 0.9 + 6 * 0.1) / 10)


def test_without_placebos_or_drops_there_is_no_contrast() -> None:
    few = named([0.0] * (LEAST_PLACEBOS - 1))
    assert PlaceboEffects(classes(few), few).contrast({"sled-0": 0.5}) is None
    enough = named([0.0] * LEAST_PLACEBOS)
    assert PlaceboEffects(classes(enough), enough).contrast({}) is None


def test_unsure_placebos_make_the_difference_unsure() -> None:
    drops = named([0.3] * 10, "sled")
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


def test_the_interval_lies_around_the_difference_and_counts_sources() -> None:
    placebos = named(list(generator(1).normal(0.0, 0.1, 30)))
    drops = named(list(generator(2).normal(0.2, 0.1, 20)))
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
def test_the_detectable_drop_is_found_four_times_in_five(n: int, level: float) -> None:
    draw, found, runs = generator(n), 0, 200
    for _ in range(runs):
        noise = draw.normal(0.0, 0.25, size=n)
        noise *= 0.25 / noise.std(ddof=1)
        drop = Contrast(noise - noise.mean(), n).detectable(level)
        assert drop is not None
        shifted = Contrast(drop + draw.normal(0.0, 0.25, size=n), n)
        found += shifted.p(draw, draws=1000) <= level
    assert 0.71 <= found / runs <= 0.89


def test_where_all_sources_agree_enough_of_them_must_drop() -> None:
    same = Contrast(np.zeros(20), 20)
    drop = same.detectable(0.05)
    assert drop is not None
    dropping = generator(3).binomial(20, drop, size=4000)
    assert np.mean(0.5**dropping <= 0.05) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("n", "level"), [(1, 0.05), (4, 0.05), (20, 1e-9)])
def test_what_no_drop_would_show_has_no_detectable_drop(n: int, level: float) -> None:
    spread = generator(4).normal(0.0, 0.2, size=n)
    assert Contrast(spread, n).detectable(level) is None
    assert Contrast(np.zeros(n), n).detectable(level) is None


def test_a_detectable_drop_above_one_is_none() -> None:
    assert Contrast(np.array([1.0, -1.0] * 5), 10).detectable(0.01) is None


def test_an_effect_no_larger_than_the_placebos_is_seldom_called_one() -> None:
    """Edits that act as placebos do, with sources shared in part: one-sided level 5 %."""
    draw, found, runs = generator(6), 0, 200
    for _ in range(runs):
        shared = draw.normal(0.0, 0.05, size=30)
        values = np.clip(shared[:, None] + 0.6 * draw.beta(0.5, 3.0, size=(30, 2)), -1.0, 1.0)
        placebos = named(list(values[:24, 0]))
        contrast = PlaceboEffects(dict.fromkeys(named([0.0] * 30), "sled"), placebos).contrast(
            {f"sled-{index}": value for index, value in enumerate(values[:, 1]) if index >= 5}
        )
        assert contrast is not None
        found += contrast.p(draw, draws=500) <= 0.05
    assert 0.01 <= found / runs <= 0.10
