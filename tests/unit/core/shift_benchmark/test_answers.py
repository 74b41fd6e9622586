"""The table of answers: built from rows, and refused if it is inconsistent."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.shift_benchmark.answers import ModelAnswers
from fakes.simulated_answers import World


def table() -> ModelAnswers:
    return World(shifts=2, classes=3, models=2).answers(np.random.default_rng(0), 4)


def test_answers_start_with_the_base_and_have_unique_names() -> None:
    for wrong in (
        {"conditions": ("shift-1", "base", "shift-2")},
        {"models": ("a", "a")},
        {"classes": ("cat", "dog")},
        {"models": ()},
    ):
        with pytest.raises(InvalidRequest):
            dataclasses.replace(table(), **wrong)


def test_images_that_were_not_generated_are_not_kept() -> None:
    answers = table()
    with pytest.raises(InvalidRequest, match="never generated"):
        dataclasses.replace(answers, made=~answers.kept)


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_only_kept_values_must_be_probabilities(value: float) -> None:
    answers = table()
    values = answers.values.astype(np.float64)
    values[~answers.kept] = value
    assert dataclasses.replace(answers, values=values).values.shape == answers.values.shape
    values[answers.kept] = value
    with pytest.raises(BadBackendOutput):
        dataclasses.replace(answers, values=values)
