"""The shift benchmark against figures computed row by row, and in another order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.benchmark import ShiftBenchmark, ShiftRow, shift_benchmark
from counterpose_core.shift_benchmark.generator_gap import RealAnswers
from counterpose_core.shift_benchmark.shift_effect import ShiftEffect
from counterpose_core.statistics.p_values import holm
from counterpose_core.types import Estimate
from evaluation.reference.plain_benchmark import (
    accuracy,
    classes_counted,
    impact,
    impact_spread,
    rows_of,
    slope,
)
from fakes.simulated_answers import World

WORLD = World(shifts=3, classes=5, models=6)


def answers(seed: int = 0, images: int = 10, share_kept: float = 0.7) -> ModelAnswers:
    return WORLD.answers(np.random.default_rng(seed), images, share_kept=share_kept)


def benchmark(table: ModelAnswers, *, draws: int = 60, real: RealAnswers | None = None) -> ShiftBenchmark:
    return shift_benchmark(table, np.random.default_rng(7), draws=draws, real=real)


def effect_of(row: ShiftRow) -> ShiftEffect:
    assert row.effect is not None
    return row.effect


def width(figure: Estimate) -> float:
    assert figure.low is not None
    assert figure.high is not None
    return figure.high - figure.low


def thinned() -> ModelAnswers:
    """Class 1 has too few images under the first shift, class 4 under the second, and none at the base."""
    table = answers(share_kept=1.0)
    table.kept[1, 1, 4:] = False
    table.kept[2, 4, 4:] = False
    table.kept[0, 4] = False
    return table


def with_real(shift: float) -> RealAnswers:
    """As many real images, answered by models that are better by ``shift`` than on generated ones."""
    values = np.clip(WORLD.values(np.random.default_rng(5), 400)[0] + shift, 0.0, 1.0)
    return RealAnswers(values, np.ones(values.shape[:2], dtype=np.bool_))


@pytest.mark.paper("DI-S6-impact", "DI-S6-slope")
@pytest.mark.parametrize("seed", range(3))
def test_every_figure_matches_a_computation_from_rows(seed: int) -> None:
    table = answers(seed, share_kept=0.6)
    rows = rows_of(table)
    for found in benchmark(table, draws=4000).rows:
        effect = effect_of(found)
        assert list(effect.classes) == classes_counted(rows, found.shift, 5)
        arguments = (table.models, found.shift, effect.classes)
        assert effect.impact.estimate == pytest.approx(impact(rows, *arguments))
        assert effect.slope.slope.estimate == pytest.approx(slope(rows, *arguments), rel=0.02)
        for each in effect.models:
            assert each.base.estimate == pytest.approx(accuracy(rows, each.model, "base", effect.classes))
            shifted = accuracy(rows, each.model, found.shift, effect.classes)
            assert each.shifted.estimate == pytest.approx(shifted)
        shifted_rows = [row for row in rows if row.condition == found.shift]
        images = {(row.class_name, row.seed) for row in shifted_rows if row.class_name in effect.classes}
        assert effect.impact.n == len(images)


def test_leave_one_out_slopes_equal_those_of_the_remaining_models() -> None:
    table = answers()
    rows, found = rows_of(table), benchmark(table, draws=4000).rows[0]
    effect = effect_of(found)
    left = [
        slope(rows, [name for name in table.models if name != out], found.shift, effect.classes)
        for out in table.models
    ]
    assert effect.slope.without_one == pytest.approx((min(left), max(left)), rel=0.02)


def test_interval_widths_match_a_bootstrap_over_rows() -> None:
    table = answers(images=30, share_kept=0.8)
    effect = effect_of(benchmark(table, draws=1000).rows[1])
    spread = impact_spread(table, 2, range(5), np.random.default_rng(0), 200)
    assert width(effect.impact) == pytest.approx(2 * 1.96 * spread, rel=0.15)


@pytest.mark.paper("DI-A5-least-images")
def test_yields_and_excluded_classes_are_reported() -> None:
    found = benchmark(thinned())
    assert [row.thin for row in found.rows] == [("class-1", "class-4"), ("class-4",), ("class-4",)]
    assert [len(effect_of(row).classes) for row in found.rows] == [3, 4, 4]
    assert found.rows[0].share_kept.estimate == pytest.approx(44 / 50)


@pytest.mark.paper("DI-A5-same-classes")
def test_the_base_is_averaged_over_the_classes_of_the_shift() -> None:
    table = thinned()
    rows, found = rows_of(table), benchmark(table).rows[0]
    for each in effect_of(found).models:
        assert each.base.estimate == pytest.approx(
            accuracy(rows, each.model, "base", ["class-0", "class-2", "class-3"])
        )


@pytest.mark.paper("DI-X-class-subset")
def test_figures_are_repeated_on_the_classes_common_to_all_shifts() -> None:
    table = thinned()
    found, rows = benchmark(table), rows_of(table)
    assert found.common == ("class-0", "class-2", "class-3")
    for row in found.rows:
        assert row.on_common is not None
        assert row.on_common.classes == found.common
        expected = impact(rows, table.models, row.shift, found.common)
        assert row.on_common.impact.estimate == pytest.approx(expected)


def test_without_excluded_classes_both_sets_of_figures_are_equal() -> None:
    for row in benchmark(answers(share_kept=1.0)).rows:
        assert row.on_common == row.effect


def test_a_shift_limited_to_some_classes_keeps_the_common_classes_of_others() -> None:
    table = answers(share_kept=1.0)
    table.kept[3, 2:] = table.made[3, 2:] = False
    found = benchmark(table)
    assert found.common == table.classes
    assert found.rows[2].thin == ()
    assert effect_of(found.rows[2]).classes == ("class-0", "class-1")
    assert found.rows[2].on_common == found.rows[2].effect


@pytest.mark.paper("DI-X-empty-class")
def test_a_shift_without_counted_classes_has_no_effect_and_changes_no_other() -> None:
    table = answers(share_kept=1.0)
    table.kept[1] = False
    found = benchmark(table)
    assert (found.rows[0].effect, found.rows[0].on_common, found.common) == (None, None, ())
    assert found.rows[0].share_kept.estimate == 0.0
    assert effect_of(found.rows[1]).classes == table.classes
    assert not found.rows[0].is_confounded


def test_a_shift_without_counted_classes_has_no_gap_and_changes_no_other() -> None:
    table = answers()
    table.kept[1] = False
    found = benchmark(table, real=with_real(0.0))
    assert [row.gap is None for row in found.rows] == [True, False, False]


def test_p_values_are_corrected_over_the_shifts_of_the_benchmark() -> None:
    effects = [effect_of(row) for row in benchmark(answers()).rows]
    assert [effect.p_holm for effect in effects] == pytest.approx(holm([effect.p for effect in effects]))
    assert effects[0].p > effects[2].p


def test_a_shift_without_effect_is_reported_as_such() -> None:
    table = answers(share_kept=1.0)
    table.values[1] = table.values[0]
    effect = effect_of(benchmark(table).rows[0])
    assert effect.impact.estimate == 0.0
    assert effect.p == 1.0
    assert width(effect.impact) > 0.0
    assert effect.slope.slope.estimate == pytest.approx(1.0)


def test_probabilities_are_compared_like_accuracies() -> None:
    table = answers()
    told = dataclasses.replace(table, values=table.values * 0.5 + 0.25)
    for row, half in zip(benchmark(table).rows, benchmark(told).rows, strict=True):
        assert effect_of(row).impact.estimate is not None
        assert effect_of(half).impact.estimate == pytest.approx(0.5 * (effect_of(row).impact.estimate or 0.0))


def test_a_generator_gap_above_the_effect_is_flagged() -> None:
    table = answers(images=60, share_kept=1.0)
    close, far = benchmark(table, real=with_real(0.0)), benchmark(table, real=with_real(0.6))
    assert [row.is_confounded for row in close.rows] == [False, False, False]
    assert far.rows[0].is_confounded
    gap = far.rows[0].gap
    assert gap is not None
    assert (gap.gap.estimate or 0.0) == pytest.approx((gap.real.estimate or 0.0) - (gap.base.estimate or 0.0))
    assert gap.real.n == 5 * 400
    assert gap.confounding == "confounded"
    assert [row.gap.confounding for row in close.rows if row.gap][-1] == "not-confounded"


def test_the_gap_and_the_impact_of_the_same_seeds_are_drawn_together() -> None:
    """Their intervals share the base images, whose noise a sum of widths would count twice."""
    table = answers(images=60, share_kept=1.0)
    table.values[0] = 0.0
    rows = benchmark(table, real=with_real(0.0), draws=400).rows
    for row in rows:
        effect, gap = effect_of(row), row.gap
        assert gap is not None
        assert (effect.impact.estimate or 0.0) < 0.0
        expected = abs(gap.gap.estimate or 0.0) - abs(effect.impact.estimate or 0.0)
        assert gap.beyond_impact.estimate == pytest.approx(expected, abs=1e-6)
        assert width(gap.beyond_impact) < width(gap.gap) + width(effect.impact)


def test_a_gap_like_the_impact_cannot_be_told_from_it() -> None:
    table = answers(share_kept=1.0)
    table.values[1] = table.values[0]
    gap = benchmark(table, real=with_real(0.0), draws=400).rows[0].gap
    assert gap is not None
    assert gap.confounding == "cannot-tell"


def test_real_images_are_averaged_by_class() -> None:
    table, real = answers(share_kept=1.0), with_real(0.0)
    real.there[0, 3:] = False
    gap = benchmark(table, real=real).rows[0].gap
    assert gap is not None
    shares = [real.values[number][real.there[number]].mean() for number in range(5)]
    assert gap.real.estimate == pytest.approx(np.mean(shares))


def test_without_real_images_there_is_no_generator_gap() -> None:
    assert all(row.gap is None and not row.is_confounded for row in benchmark(answers()).rows)


def test_real_images_do_not_change_shift_figures() -> None:
    table = answers()
    with_them, without = benchmark(table, real=with_real(0.0)), benchmark(table)
    assert [row.effect for row in with_them.rows] == [row.effect for row in without.rows]


def test_a_class_without_real_images_is_named() -> None:
    real = with_real(0.0)
    real.there[3] = False
    with pytest.raises(DatasetEmpty, match="'class-3'"):
        benchmark(answers(share_kept=1.0), real=real)
    with pytest.raises(InvalidRequest, match="real answers"):
        benchmark(answers(), real=RealAnswers(real.values[:, :, :2], real.there))


def test_the_same_seed_gives_the_same_benchmark() -> None:
    assert benchmark(answers()) == benchmark(answers())


def reordered(
    table: ModelAnswers,
    *,
    shifts: Sequence[int] = range(3),
    classes: Sequence[int] = range(5),
    images: Sequence[int] = range(10),
    models: Sequence[int] = range(6),
) -> ModelAnswers:
    conditions = [0, *(index + 1 for index in shifts)]
    places = np.ix_(conditions, classes, images)
    return ModelAnswers(
        models=tuple(table.models[index] for index in models),
        conditions=tuple(table.conditions[index] for index in conditions),
        classes=tuple(table.classes[index] for index in classes),
        values=table.values[np.ix_(conditions, classes, images, models)],
        made=table.made[places],
        kept=table.kept[places],
    )


def by_shift(found: ShiftBenchmark) -> dict[str, ShiftEffect]:
    return {row.shift: effect_of(row) for row in found.rows}


@given(shifts=st.permutations(range(3)), models=st.permutations(range(6)))
@settings(max_examples=8)
def test_the_order_of_shifts_and_models_changes_no_figure_and_no_interval(
    shifts: list[int], models: list[int]
) -> None:
    table = answers(1)
    expected = by_shift(benchmark(table))
    mixed = by_shift(benchmark(reordered(table, shifts=shifts, models=models)))
    for shift, effect in mixed.items():
        assert ends(effect.impact) == pytest.approx(ends(expected[shift].impact), abs=1e-6)
        assert ends(effect.slope.slope) == pytest.approx(ends(expected[shift].slope.slope), abs=1e-4)
        assert {each.model: each.drop.estimate for each in effect.models} == pytest.approx(
            {each.model: each.drop.estimate for each in expected[shift].models}
        )


@given(classes=st.permutations(range(5)), images=st.permutations(range(10)))
@settings(max_examples=8)
def test_the_order_of_classes_and_images_changes_no_figure(classes: list[int], images: list[int]) -> None:
    table = answers(1)
    expected = by_shift(benchmark(table, draws=1000))
    mixed = by_shift(benchmark(reordered(table, classes=classes, images=images), draws=1000))
    for shift, effect in mixed.items():
        assert effect.impact.estimate == pytest.approx(expected[shift].impact.estimate)
        assert effect.p == pytest.approx(expected[shift].p, rel=1e-3)
        assert effect.slope.slope.estimate == pytest.approx(expected[shift].slope.slope.estimate, rel=0.05)
        assert width(effect.impact) == pytest.approx(width(expected[shift].impact), rel=0.4)


def ends(figure: Estimate) -> tuple[float, float, float]:
    assert figure.estimate is not None
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.estimate, figure.high
