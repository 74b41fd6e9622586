"""The table of answers: laid out from rows, and refused where it does not hold together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from fakes.shifted_answers import World
from faultline_core.errors import BadBackendOutput, InvalidRequest
from faultline_core.model_answers import AnswerRows, ModelAnswers, answers_from_rows


def table() -> ModelAnswers:
    return World(shifts=2, classes=3, models=2).answers(np.random.default_rng(0), 4)


def rows_of(answers: ModelAnswers) -> AnswerRows:
    places = np.argwhere(np.ones(answers.values.shape))
    return AnswerRows(
        model=[answers.models[m] for _, _, _, m in places],
        condition=[answers.conditions[s] for s, _, _, _ in places],
        class_name=[answers.classes[c] for _, c, _, _ in places],
        seed=[int(1000 + i) for _, _, i, _ in places],
        value=[answers.values[s, c, i, m] for s, c, i, m in places],
        kept=[answers.kept[s, c, i] for s, c, i, _ in places],
    )


def test_rows_are_laid_out_by_condition_class_seed_and_model() -> None:
    expected, found = table(), answers_from_rows(rows_of(table()))
    assert (found.models, found.conditions, found.classes) == (
        expected.models, expected.conditions, expected.classes
    )  # fmt: skip
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.kept, expected.kept)
    assert found.made.all()


def picked(rows: AnswerRows, places: Iterable[int]) -> AnswerRows:
    taken = list(places)
    return AnswerRows(*([column[place] for place in taken] for column in dataclasses.astuple(rows)))


def test_the_order_of_rows_decides_nothing_but_the_order_of_names() -> None:
    rows = rows_of(table())
    found = answers_from_rows(picked(rows, np.random.default_rng(1).permutation(len(rows.model))))
    assert found.conditions[0] == "base"
    for shift in found.shifts:
        own, expected = found.conditions.index(shift), table().conditions.index(shift)
        assert found.values[own].sum() == table().values[expected].sum()
        assert found.kept[own].sum() == table().kept[expected].sum()


def test_a_picture_that_no_row_has_was_not_made() -> None:
    rows = rows_of(table())
    pairs = list(zip(rows.condition, rows.seed, strict=True))
    found = answers_from_rows(
        picked(rows, (place for place, pair in enumerate(pairs) if pair != ("shift-1", 1002)))
    )
    assert not found.made[1, :, 2].any()
    assert found.made.sum() == table().made.sum() - 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: dataclasses.replace(rows, seed=rows.seed[1:]), "differ in length"),
        (lambda rows: dataclasses.replace(rows, seed=[7] * len(rows.seed)), "stands twice"),
        (lambda rows: dataclasses.replace(rows, model=["other", *rows.model[1:]]), "every model"),
        (lambda rows: dataclasses.replace(rows, kept=[not rows.kept[0], *rows.kept[1:]]), "not for another"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    change: Callable[[AnswerRows], AnswerRows], why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        answers_from_rows(change(rows_of(table())))


def test_a_benchmark_begins_with_its_base_and_names_everything_once() -> None:
    for wrong in (
        {"conditions": ("shift-1", "base", "shift-2")},
        {"models": ("a", "a")},
        {"classes": ("cat", "dog")},
        {"models": ()},
    ):
        with pytest.raises(InvalidRequest):
            dataclasses.replace(table(), **wrong)


def test_what_was_never_made_is_not_kept() -> None:
    answers = table()
    with pytest.raises(InvalidRequest, match="never made"):
        dataclasses.replace(answers, made=~answers.kept)


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_a_kept_value_is_a_probability_and_others_may_be_anything(value: float) -> None:
    answers = table()
    values = answers.values.astype(np.float64)
    values[~answers.kept] = value
    assert dataclasses.replace(answers, values=values).values.shape == answers.values.shape
    values[answers.kept] = value
    with pytest.raises(BadBackendOutput):
        dataclasses.replace(answers, values=values)
