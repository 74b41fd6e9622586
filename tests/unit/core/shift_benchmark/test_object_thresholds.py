"""The object threshold of each class: a percentile of its real images."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.errors import DatasetEmpty, InvalidRequest, NumericalFailure
from counterpose_core.shift_benchmark.object_thresholds import object_thresholds

CLIP = "tiny"


@pytest.mark.paper("DI-A3-object-threshold")
def test_each_class_threshold_is_a_percentile_of_its_own_images() -> None:
    found = object_thresholds(
        {"cat": np.linspace(0.2, 0.3, 101), "dog": np.linspace(0.0, 0.1, 101)}, checkpoint=CLIP, percentile=10
    )
    assert found.of(["dog", "cat"]).tolist() == pytest.approx([0.01, 0.21])
    assert (found.checkpoint, found.percentile, found.photo) == (CLIP, 10, True)


def test_a_threshold_reports_its_number_of_images_and_dropped_share() -> None:
    cat = object_thresholds({"cat": np.linspace(0.2, 0.3, 100)}, checkpoint=CLIP).by_class["cat"]
    assert cat.threshold.n == cat.dropped.n == 100
    assert cat.dropped.estimate == 0.05


def test_at_percentile_zero_no_real_image_is_dropped() -> None:
    cat = object_thresholds({"cat": [0.3, 0.1, 0.2]}, checkpoint=CLIP, percentile=0).by_class["cat"]
    assert (cat.threshold.estimate, cat.dropped.estimate) == (0.1, 0.0)


def test_the_interval_covers_the_true_quantile_at_the_nominal_rate() -> None:
    draw, covered = np.random.default_rng(0), 0
    for _ in range(400):
        found = object_thresholds({"a": draw.uniform(size=60)}, checkpoint=CLIP, percentile=20).by_class["a"]
        assert found.threshold.low is not None
        assert found.threshold.high is not None
        covered += found.threshold.low <= 0.2 <= found.threshold.high
    assert 0.94 <= covered / 400 <= 0.99


def test_each_interval_end_errs_in_at_most_one_case_of_forty() -> None:
    found = (
        object_thresholds({"a": np.arange(60) / 60}, checkpoint=CLIP, percentile=20).by_class["a"].threshold
    )
    chances = [math.comb(60, k) * 0.2**k * 0.8 ** (60 - k) for k in range(61)]
    # An image lies above the true quantile where no more than its rank lie below that.
    assert found.low == max(rank / 60 for rank in range(60) if sum(chances[: rank + 1]) <= 0.025)
    assert found.high == min(rank / 60 for rank in range(60) if sum(chances[rank + 1 :]) <= 0.025)


def test_too_few_images_give_an_open_interval() -> None:
    found = object_thresholds({"a": [0.2, 0.3, 0.25]}, checkpoint=CLIP, percentile=5).by_class["a"]
    assert found.threshold.low == -1.0


def test_a_class_without_real_images_is_named() -> None:
    with pytest.raises(DatasetEmpty, match="'dog'"):
        object_thresholds({"cat": [0.2], "dog": []}, checkpoint=CLIP)
    with pytest.raises(InvalidRequest, match="'wolf'"):
        object_thresholds({"cat": [0.2]}, checkpoint=CLIP).of(["cat", "wolf"])


@pytest.mark.parametrize("percentile", [-0.1, 100.1, float("nan")])
def test_an_invalid_percentile_is_refused(percentile: float) -> None:
    with pytest.raises(InvalidRequest, match="not a percentile"):
        object_thresholds({"cat": [0.2]}, checkpoint=CLIP, percentile=percentile)


@pytest.mark.parametrize("similarity", [float("nan"), float("inf"), 1.5, -2.0])
def test_an_invalid_cosine_is_refused(similarity: float) -> None:
    with pytest.raises(NumericalFailure, match="'cat'"):
        object_thresholds({"cat": [0.2, similarity]}, checkpoint=CLIP)
