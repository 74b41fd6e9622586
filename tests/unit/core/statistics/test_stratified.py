"""Means over classes and their draws, compared with sums written out image by image."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.statistics import stratified as within_class
from counterpose_core.statistics.stratified import Comparison, count_units, stratified_bootstrap
from fakes.simulated_answers import World


def answers(seed: int = 0, images: int = 9) -> ModelAnswers:
    return World(shifts=2, classes=4, models=3, seed=1).answers(np.random.default_rng(seed), images)


def compared(
    table: ModelAnswers, counted: np.ndarray | None = None, *, draws: int = 400, seed: int = 3
) -> Comparison:
    flags = np.ones((2, 4), dtype=np.bool_) if counted is None else counted
    values, kept = table.values, table.kept
    generator = np.random.default_rng(seed)
    return stratified_bootstrap(values[0], kept[0], values[1:], kept[1:], flags, generator, draws=draws)


def mean_over_classes(table: ModelAnswers, condition: int, model: int, classes: list[int]) -> float:
    shares = []
    for number in classes:
        right = [
            float(table.values[condition, number, image, model])
            for image in range(table.kept.shape[2])
            if table.kept[condition, number, image]
        ]
        shares.append(sum(right) / len(right))
    return sum(shares) / len(shares)


@pytest.mark.paper("DI-A5-per-class")
def test_means_are_over_kept_images_and_then_over_counted_classes() -> None:
    table = answers()
    counted = np.array([[True, True, False, True], [False, True, True, False]])
    found = compared(table, counted)
    for shift, classes in enumerate(([0, 1, 3], [1, 2])):
        for model in range(3):
            base = mean_over_classes(table, 0, model, classes)
            shifted = mean_over_classes(table, shift + 1, model, classes)
            assert found.base.mean[shift, model] == pytest.approx(base)
            assert found.shifted.mean[shift, model] == pytest.approx(shifted)
            assert found.drop.mean[shift, model] == pytest.approx(base - shifted)
        assert found.impact.mean[shift] == pytest.approx(found.drop.mean[shift].mean())


def test_draws_have_the_analytic_mean_and_variance() -> None:
    found = compared(answers(), draws=20_000)
    for figure in (found.base, found.shifted, found.drop, found.impact):
        assert figure.draws.mean(axis=0) == pytest.approx(figure.mean, abs=0.004)
        assert figure.draws.std(axis=0) == pytest.approx(np.sqrt(figure.second), rel=0.03)
        skew = np.mean((figure.draws - figure.mean) ** 3, axis=0)
        assert skew == pytest.approx(figure.third, abs=0.15 * float(np.max(figure.second)) ** 1.5)


def test_the_second_moment_matches_the_textbook_variance() -> None:
    table = answers()
    found = compared(table)
    expected = 0.0
    for number in range(4):
        values = table.values[1, number, table.kept[1, number], 2].astype(float)
        expected += values.var(ddof=1) / values.size / 4**2
    assert found.shifted.second[0, 2] == pytest.approx(expected)


def test_base_shift_and_all_models_are_resampled_jointly() -> None:
    alike = answers()
    values = np.broadcast_to(alike.values[:1, ..., :1], alike.values.shape)
    kept = np.broadcast_to(alike.kept[:1], alike.kept.shape)
    found = stratified_bootstrap(values[0], kept[0], values[1:], kept[1:], np.ones((2, 4), dtype=np.bool_),
                    np.random.default_rng(0), draws=50)  # fmt: skip
    assert found.base.second.min() > 0.0
    assert np.abs(found.drop.draws).max() < 1e-6
    assert found.drop.second.max() == pytest.approx(0.0, abs=1e-12)
    assert np.ptp(found.base.draws, axis=2).max() < 1e-6


def test_summing_classes_in_blocks_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compared(answers(), draws=20_000)
    monkeypatch.setattr(within_class, "_BLOCK", 1)
    parts = compared(answers(), draws=20_000)
    assert parts.drop.mean == pytest.approx(whole.drop.mean)
    assert parts.drop.second == pytest.approx(whole.drop.second)
    assert parts.drop.draws.std(axis=0) == pytest.approx(whole.drop.draws.std(axis=0), rel=0.03)


def test_an_excluded_class_has_no_influence() -> None:
    table, counted = answers(), np.ones((2, 4), dtype=np.bool_)
    counted[:, 2] = False
    other = answers()
    other.values[:, 2] = 1 - other.values[:, 2]
    other.kept[:, 2] = ~other.kept[:, 2]
    first, second = compared(table, counted), compared(other, counted)
    assert np.array_equal(first.drop.draws, second.drop.draws)
    assert np.array_equal(first.impact.second, second.impact.second)


def test_the_same_generator_gives_the_same_draws() -> None:
    assert np.array_equal(compared(answers()).drop.draws, compared(answers()).drop.draws)
    assert not np.array_equal(compared(answers()).drop.draws, compared(answers(), seed=4).drop.draws)


def test_copies_of_an_image_add_nothing_if_they_are_one_unit() -> None:
    table, copies = answers(), 3
    values, kept = (np.repeat(each, copies, axis=2) for each in (table.values, table.kept))
    units = np.broadcast_to(np.arange(values.shape[2]) // copies * copies, kept.shape)
    flags = np.ones((2, 4), dtype=np.bool_)
    alone = compared(table)
    parts = values[0], kept[0], values[1:], kept[1:], flags
    blind = stratified_bootstrap(*parts, np.random.default_rng(3))
    grouped = stratified_bootstrap(*parts, np.random.default_rng(3), units=units[0], shifted_units=units[1:])
    for of in ("base", "shifted", "drop", "impact"):
        figure, expected = getattr(grouped, of), getattr(alone, of)
        assert figure.mean == pytest.approx(expected.mean)
        assert figure.second == pytest.approx(expected.second, rel=1e-4)
        assert figure.third == pytest.approx(expected.third, rel=1e-3, abs=1e-9)
        assert figure.draws.std(axis=0) == pytest.approx(np.sqrt(expected.second), rel=0.1)
        assert np.all(getattr(blind, of).second <= 0.5 * expected.second)
    assert count_units(kept, units).tolist() == table.kept.sum(axis=2).tolist()
