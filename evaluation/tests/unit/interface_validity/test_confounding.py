"""Errors of estimated accuracies, by token and by class name, against known truth."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from evaluation.interface_validity.confounding import (
    Confounding,
    ImageSourceAnswers,
    ImageSources,
    confounding,
)
from evaluation.tests.fakes.confounded_image_sources import CLASSES, SHIFTS, image_sources

CELLS = [[(shift, number) for number in range(len(CLASSES))] for shift in range(len(SHIFTS))]


def found(table: ImageSources, draws: int = 200) -> Confounding:
    return confounding(table, np.random.default_rng(1), draws=draws)


def test_an_error_is_the_mean_distance_over_cells_and_models() -> None:
    table = image_sources(np.random.default_rng(0))
    table.token.kept[:, :, 20:] = False
    shares = {
        name: np.array(
            [[each.values[s, c][each.kept[s, c]].mean(axis=0) for c in range(2)] for s in range(2)]
        )
        for name, each in (("truth", table.truth), ("token", table.token), ("name", table.class_name))
    }
    result = found(table)
    token, name = (np.abs(shares[each] - shares["truth"]).mean() for each in ("token", "name"))
    assert result.token_error.estimate == pytest.approx(token, abs=1e-6)
    assert result.class_name_error.estimate == pytest.approx(name, abs=1e-6)
    assert result.difference.estimate == pytest.approx(token - name, abs=1e-6)
    assert (result.token_error.n, result.class_name_error.n) == (80, 120)


def test_each_cell_shows_the_accuracies_side_by_side() -> None:
    table = image_sources(np.random.default_rng(0))
    cells = found(table).cells
    assert [(cell.shift, cell.class_) for cell in cells] == [(s, c) for s in SHIFTS for c in CLASSES]
    assert cells[1].token.estimate == pytest.approx(table.token.values[0, 1].mean())
    assert (cells[1].truth.n, cells[1].token.n) == (120, 30)


def test_a_cell_with_too_few_images_of_a_source_is_excluded() -> None:
    table = image_sources(np.random.default_rng(0))
    table.class_name.kept[1, 0, 4:] = False
    assert [(cell.shift, cell.class_) for cell in found(table).cells] == [
        ("in the snow", "plate"), ("in the snow", "boat"), ("red", "boat")
    ]  # fmt: skip
    table.token.kept[:] = False
    assert (found(table).difference.estimate, found(table).cells) == (None, ())


@pytest.mark.paper("DI-X-confounding")
def test_a_mismatched_name_has_a_larger_error_than_a_token() -> None:
    result = found(image_sources(np.random.default_rng(0), images=60))
    assert result.difference.high is not None
    assert result.difference.high < 0.0


def test_an_error_caused_by_noise_is_not_reported_as_above_zero() -> None:
    result = found(image_sources(np.random.default_rng(4), token=0.0))
    assert (result.token_error.estimate or 0.0) > 0.02
    assert result.token_error.low == 0.0
    assert (result.class_name_error.low or 0.0) > 0.1


def test_images_of_one_seed_are_resampled_together() -> None:
    table = image_sources(np.random.default_rng(0), class_name=0.0)
    same = dataclasses.replace(table, class_name=table.token)
    assert found(same).difference.estimate == 0.0


def test_sources_with_different_shifts_seeds_or_models_are_refused() -> None:
    table = image_sources(np.random.default_rng(0))
    fewer = ImageSourceAnswers(table.token.values[:, :, :5], table.token.kept[:, :, :5])
    other = ImageSourceAnswers(table.token.values[..., :2], table.token.kept)
    for wrong in ({"classes": ("plate",)}, {"class_name": fewer}, {"truth": other}):
        with pytest.raises(InvalidRequest):
            dataclasses.replace(table, **wrong)
