"""The benchmark's figures written out row by row, with a bootstrap that redraws rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers


@dataclass(frozen=True)
class Row:
    """One model's value on one kept image."""

    model: str
    condition: str
    class_name: str
    seed: int
    value: float


def rows_of(answers: ModelAnswers) -> list[Row]:
    """Every kept answer of a table."""
    return [
        Row(model, condition, name, seed, float(answers.values[s, c, seed, m]))
        for s, condition in enumerate(answers.conditions)
        for c, name in enumerate(answers.classes)
        for seed in range(answers.kept.shape[2])
        if answers.kept[s, c, seed]
        for m, model in enumerate(answers.models)
    ]


def classes_counted(rows: Sequence[Row], shift: str, least: int) -> list[str]:
    """The classes with enough images under the base and the shift."""
    names = sorted({row.class_name for row in rows})
    return [
        name
        for name in names
        if all(
            len({row.seed for row in rows if (row.condition, row.class_name) == (condition, name)}) >= least
            for condition in ("base", shift)
        )
    ]


def accuracy(rows: Sequence[Row], model: str, condition: str, classes: Sequence[str]) -> float:
    """The mean over classes of the share of right answers."""
    shares = []
    for name in classes:
        found = [
            row.value
            for row in rows
            if (row.model, row.condition, row.class_name) == (model, condition, name)
        ]
        shares.append(sum(found) / len(found))
    return sum(shares) / len(shares)


def impact(rows: Sequence[Row], models: Sequence[str], shift: str, classes: Sequence[str]) -> float:
    """The mean over models of what the shift costs."""
    drops = [
        accuracy(rows, model, "base", classes) - accuracy(rows, model, shift, classes) for model in models
    ]
    return sum(drops) / len(drops)


def slope(rows: Sequence[Row], models: Sequence[str], shift: str, classes: Sequence[str]) -> float:
    """The slope over models of shifted on base accuracy, less the images' noise (Fuller 1987, 1.2)."""
    means = {
        condition: np.array([accuracy(rows, model, condition, classes) for model in models])
        for condition in ("base", shift)
    }
    x, y = (found - found.mean() for found in means.values())
    spread, product = (
        _sampled_covariance(rows, models, ("base", condition), classes) for condition in ("base", shift)
    )
    return float((x @ y - _about_the_mean(product)) / (x @ x - _about_the_mean(spread)))


def _about_the_mean(covariances: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The expected sum of products of errors about their mean over models."""
    return float(np.trace(covariances) - covariances.mean() * len(covariances))


def _sampled_covariance(
    rows: Sequence[Row], models: Sequence[str], conditions: tuple[str, str], classes: Sequence[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The covariances (models, models) of mean accuracies, whose images of equal seeds are drawn together."""
    total = np.zeros((len(models), len(models)))
    for name in classes:
        sides = []
        for condition in conditions:
            values: dict[int, list[float]] = {}
            for model in models:
                for row in rows:
                    if (row.model, row.condition, row.class_name) == (model, condition, name):
                        values.setdefault(row.seed, []).append(float(row.value))
            seeds, table = list(values), np.array(list(values.values()))
            deviations = (table - table.mean(axis=0)) / np.sqrt(len(table) * (len(table) - 1))
            sides.append(dict(zip(seeds, deviations, strict=True)))
        for seed in sides[0].keys() & sides[1].keys():
            total += np.outer(sides[0][seed], sides[1][seed])
    return total / len(classes) ** 2


def impact_spread(
    answers: ModelAnswers, shift: int, classes: Sequence[int], generator: np.random.Generator, draws: int
) -> float:
    """The standard deviation of an impact whose seeds are redrawn within each class, rows and all.

    A seed is drawn with both its images and all models' answers; a draw in which a class has no image
    left is repeated.
    """
    found: list[float] = []
    seeds = answers.kept.shape[2]
    while len(found) < draws:
        drops = []
        for number in classes:
            drawn = [int(generator.integers(seeds)) for _ in range(seeds)]
            means = []
            for condition in (0, shift):
                chosen = [seed for seed in drawn if answers.kept[condition, number, seed]]
                means.append([answers.values[condition, number, seed].mean() for seed in chosen])
            if not all(means):
                break
            drops.append(float(np.mean(means[0]) - np.mean(means[1])))
        else:
            found.append(float(np.mean(drops)))
    return float(np.std(found))
