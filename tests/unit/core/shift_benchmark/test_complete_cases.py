"""Benchmarks in which models failed on images: own figures on own images, comparisons on common ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.benchmark import ShiftBenchmark, ShiftRow, shift_benchmark
from counterpose_core.shift_benchmark.generator_gap import RealAnswers
from counterpose_core.shift_benchmark.shift_effect import ModelDrop, ShiftEffect
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.statistics.p_values import holm
from fakes.simulated_answers import World

WORLD = World(shifts=3, classes=4, models=4)
IMAGES = 20
EVERY = (slice(None), slice(None), slice(None))


def table(models: tuple[int, ...] = (0, 1, 2, 3), seed: int = 3) -> ModelAnswers:
    made = WORLD.answers(np.random.default_rng(seed), IMAGES, share_kept=0.9)
    names = tuple(made.models[index] for index in models)
    return dataclasses.replace(made, models=names, values=made.values[..., list(models)])


def failing(answers: ModelAnswers, failed: Flags) -> ModelAnswers:
    """Answers whose values mean nothing where a model ``failed`` (conditions, classes, images, models)."""
    return dataclasses.replace(answers, values=answers.values != failed, answered=~failed)


Place = tuple[int | slice | Flags, ...]
"""Some conditions, classes and images."""


def lost(answers: ModelAnswers, model: int, *where: Place) -> ModelAnswers:
    failed = np.zeros(answers.values.shape, dtype=np.bool_)
    for place in where:
        failed[(*place, model)] = True
    return failing(answers, failed)


def without(answers: ModelAnswers, failed: Flags) -> ModelAnswers:
    return dataclasses.replace(answers, kept=answers.kept & ~failed)


def benchmark(answers: ModelAnswers, real: RealAnswers | None = None) -> ShiftBenchmark:
    return shift_benchmark(answers, np.random.default_rng(7), real=real, draws=80)


def effect_of(row: ShiftRow) -> ShiftEffect:
    assert row.effect is not None
    return row.effect


def drops(row: ShiftRow) -> dict[str, ModelDrop]:
    return {drop.model: drop for drop in effect_of(row).models}


def over_models(effect: ShiftEffect) -> tuple[object, ...]:
    """What an effect says over models: all but each model's own drop."""
    return effect.classes, effect.impact, effect.p, effect.p_holm, effect.slope, effect.probit_slope


def real_images(models: tuple[int, ...] = (0, 1, 2, 3)) -> RealAnswers:
    values = WORLD.values(np.random.default_rng(5), 40)[0][..., list(models)]
    return RealAnswers(values, np.ones(values.shape[:2], dtype=np.bool_))


OTHERS = (0, 2, 3)
SOME = ((0, 1, slice(0, 3)), (2, 0, slice(4, 6)))
"""Three base images of the second class, and two of the first class under the second shift."""


def some_flags() -> Flags:
    flags = np.zeros((4, 4, IMAGES), dtype=np.bool_)
    for place in SOME:
        flags[place] = True
    return flags


def test_answers_without_any_failure_give_the_same_benchmark() -> None:
    assert benchmark(lost(table(), 1)) == benchmark(table())


def test_each_models_own_figures_use_the_images_that_it_answered() -> None:
    found, whole = benchmark(lost(table(), 1, *SOME)), benchmark(table())
    alone = benchmark(without(table((1,)), some_flags()))
    for row, all_answered, own in zip(found.rows, whole.rows, alone.rows, strict=True):
        told = drops(row)
        assert told["model-1"] == drops(own)["model-1"]
        for name in ("model-0", "model-2", "model-3"):
            for side in ("base", "shifted", "drop"):
                mine, expected = getattr(told[name], side), getattr(drops(all_answered)[name], side)
                assert (mine.estimate, mine.n) == (pytest.approx(expected.estimate), expected.n)
    lost_base = int(table().kept[SOME[0]].sum())
    first = drops(found.rows[0])
    assert lost_base
    assert first["model-0"].base.n - first["model-1"].base.n == lost_base


def test_figures_over_models_use_the_images_that_all_of_them_answered() -> None:
    found = benchmark(lost(table(), 1, *SOME), real_images())
    common = benchmark(without(table(), some_flags()), real_images())
    for row, expected in zip(found.rows, common.rows, strict=True):
        assert over_models(effect_of(row)) == over_models(effect_of(expected))
        assert row.gap == expected.gap
        assert row.on_common is not None
        assert expected.on_common is not None
        assert over_models(row.on_common) == over_models(expected.on_common)
    # The filter kept them, whoever answered.
    assert found.rows[1].share_kept == benchmark(table()).rows[1].share_kept


def test_two_failing_models_are_compared_on_what_both_answered() -> None:
    failed = np.zeros(table().values.shape, dtype=np.bool_)
    failed[0, 1, :2, 1] = failed[1, 2, 3:5, 2] = True
    found = benchmark(failing(table(), failed))
    common = benchmark(without(table(), np.asarray(failed.any(axis=-1))))
    for row, expected in zip(found.rows, common.rows, strict=True):
        assert over_models(effect_of(row)) == over_models(effect_of(expected))


def test_a_model_that_fails_often_is_not_compared_and_costs_the_others_no_image() -> None:
    often = (slice(None), slice(None), slice(0, 5))
    found, others = benchmark(lost(table(), 1, often), real_images()), benchmark(table(OTHERS))
    for row, expected in zip(found.rows, others.rows, strict=True):
        assert over_models(effect_of(row)) == over_models(effect_of(expected))
        assert {name for name, drop in drops(row).items() if not drop.is_compared} == {"model-1"}
        assert row.gap is not None
        assert row.gap.base.n == int(table().kept[0].sum())


def test_a_model_that_answered_no_image_has_no_figure() -> None:
    found, others = benchmark(lost(table(), 1, EVERY)), benchmark(table(OTHERS))
    assert [over_models(effect_of(row)) for row in found.rows] == [
        over_models(effect_of(row)) for row in others.rows
    ]
    assert all("model-1" not in drops(row) for row in found.rows)


def test_a_model_that_fails_under_one_shift_is_compared_under_the_others() -> None:
    found = benchmark(lost(table(), 1, (2, slice(None), slice(None))), real_images())
    others = benchmark(table(OTHERS), real_images(OTHERS))
    whole = benchmark(table(), real_images())
    assert "model-1" not in drops(found.rows[1])
    for row, expected in zip(found.rows, (whole, others, whole), strict=True):
        same = next(each for each in expected.rows if each.shift == row.shift)
        assert (effect_of(row).impact.estimate, effect_of(row).p) == pytest.approx(
            (effect_of(same).impact.estimate, effect_of(same).p)
        )
        assert row.gap is not None
        assert same.gap is not None
        assert row.gap.gap.estimate == pytest.approx(same.gap.gap.estimate)
    # One family of shifts, however many sets of models are compared.
    assert [effect_of(row).p_holm for row in found.rows] == pytest.approx(
        holm([effect_of(row).p for row in found.rows])
    )
    # Effects that are compared between shifts are those of the same models.
    for row, without_it in zip(found.rows, others.rows, strict=True):
        assert row.on_common is not None
        assert without_it.on_common is not None
        assert row.on_common.impact.estimate == pytest.approx(without_it.on_common.impact.estimate)


def test_a_class_that_a_compared_model_answered_too_little_of_is_thin_for_the_comparison() -> None:
    few = table()
    few.kept[1, 3] = np.arange(IMAGES) < 6
    assert benchmark(few).rows[0].thin == ()
    row = benchmark(lost(few, 1, (1, 3, slice(0, 2)))).rows[0]
    assert row.thin == ("class-3",)
    assert effect_of(row).classes == ("class-0", "class-1", "class-2")
    own = drops(row)
    assert own["model-0"].classes == few.classes
    assert own["model-1"].classes == effect_of(row).classes
    assert own["model-1"].is_compared
    assert own["model-1"].shifted.n == effect_of(row).impact.n


def test_the_only_model_counts_however_often_it_failed() -> None:
    failed = np.zeros((4, 4, IMAGES), dtype=np.bool_)
    failed[:, :, ::3] = True
    found = benchmark(lost(table((2,)), 0, (failed,)))
    expected = benchmark(without(table((2,)), failed))
    assert [row.effect for row in found.rows] == [row.effect for row in expected.rows]


def test_real_images_that_a_compared_model_did_not_answer_leave_the_gap() -> None:
    real = real_images()
    answered = np.ones(real.values.shape, dtype=np.bool_)
    answered[0, :3, 2] = False
    there = np.asarray(answered.all(axis=-1))
    found = benchmark(table(), dataclasses.replace(real, answered=answered))
    expected = benchmark(table(), dataclasses.replace(real, there=there))
    assert [row.gap for row in found.rows] == [row.gap for row in expected.rows]
    # A model that answered no real image has a drop, but no part in the gap.
    answered[..., 2] = False
    found = benchmark(table(), dataclasses.replace(real, answered=answered))
    three = RealAnswers(real.values[..., [0, 1, 3]], real.there)
    expected = benchmark(table((0, 1, 3)), three)
    gaps = [(row.gap and row.gap.gap) for row in found.rows]
    # The first of these images are missing for the third model alone.
    assert gaps == [(row.gap and row.gap.gap) for row in expected.rows]
    assert "model-2" in drops(found.rows[0])
    # How many it answered of what a model that is not compared did is no matter.
    answered[:] = True
    answered[:, ::2, [0, 2, 3]] = False
    half = dataclasses.replace(real, answered=answered)
    found = benchmark(lost(table(), 1, (slice(None), slice(None), slice(0, 5))), half)
    assert [row.gap and row.gap.real.n for row in found.rows] == [4 * 20] * 3
    answered[:] = False
    none = benchmark(table(), dataclasses.replace(real, answered=answered))
    assert all(row.gap is None for row in none.rows)


def test_answered_flags_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="shape"):
        dataclasses.replace(table(), answered=np.ones((4, 4, IMAGES, 2), dtype=np.bool_))
