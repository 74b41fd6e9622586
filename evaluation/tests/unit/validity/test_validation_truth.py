"""Rendered truth: the table of probabilities, its drops, and which bugs count as planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.types import Estimate
from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.renderer import render
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, scene, truth
from evaluation.validity.measures import Floats
from evaluation.validity.truth import CLASSES, COLUMNS, Images, is_planted, rendered, true_class_table


def test_a_rendered_row_has_the_source_and_each_true_counterfactual(tmp_path: Path) -> None:
    source = scene(nuisance=7)
    images = rendered([source], tmp_path / "truth" / "renderings.npy")
    column = COLUMNS.index(("weather", "fog"))
    assert np.array_equal(images[0, column], render(source.changed("weather", "fog")))
    assert np.array_equal(images[0, COLUMNS.index(("style", "photo"))], render(source))
    assert images.shape == (1, 24, 64, 64, 3)


def test_existing_renderings_are_read_from_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "kept.npy", np.zeros((1, 24, 1, 1, 1), dtype=np.uint8))
    assert rendered([scene()], tmp_path / "kept.npy").shape == (1, 24, 1, 1, 1)


def test_the_table_has_the_probability_of_the_true_class() -> None:
    scenes = [scene("boat"), scene("tram")]
    images: Images = np.zeros((2, len(COLUMNS), 1, 1, 1), dtype=np.uint8)
    images[1] = 1

    def predict(batch: Images) -> Floats:
        rows = np.zeros((len(batch), len(CLASSES)))
        rows[:, CLASSES.index("boat")] = 0.25 + 0.5 * batch[:, 0, 0, 0]
        rows[:, CLASSES.index("tram")] = 0.1
        return rows

    table = true_class_table(scenes, images, predict)
    assert table.shape == (2, len(COLUMNS))
    assert np.all(table[0] == 0.25)
    assert np.all(table[1] == 0.1)


def test_a_drop_compares_the_source_with_one_changed_attribute() -> None:
    found = truth([scene()], {("background", "grass"): 0.2})
    assert found.drop(0, "background", "grass") == pytest.approx(0.7)
    assert found.drop(0, "background", "water") == 0.0


def test_a_bias_drops_from_its_value_to_the_mean_of_the_others() -> None:
    found = truth([scene(), scene("tram")], {("background", "water"): 0.9}, otherwise=0.4)
    assert found.bug_drops(BOAT_BY_ITS_WATER).tolist() == pytest.approx([0.5])


def test_a_confusion_drops_from_the_mean_of_the_others_to_its_value() -> None:
    known = BOAT_BY_ITS_WATER.model_dump() | {"mode": "mistaken-for"}
    found = truth([scene()], {("background", "water"): 0.3})
    assert found.bug_drops(Bug.model_validate(known)).tolist() == pytest.approx([0.6])


@pytest.mark.parametrize(
    ("estimate", "low", "n", "planted"),
    [
        (0.15, 0.06, 50, True),
        (0.14, 0.06, 50, False),
        (0.30, 0.05, 50, False),
        (0.30, 0.20, 19, False),
    ],
)
def test_a_bug_counts_as_planted_if_renderings_show_it(
    estimate: float, low: float, n: int, planted: bool
) -> None:
    assert is_planted(Estimate(estimate=estimate, low=low, high=0.9, n=n)) is planted
