"""The figures on dataset interfaces, computed on a synthetic benchmark with known truth."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from counterpose_core.contract.shift_thresholds import Inspections
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import Cost
from counterpose_miniature.world.dataset import encode_png
from evaluation.interface_validity.batching import largest_difference, times_as_fast
from evaluation.interface_validity.calibration import shown
from evaluation.interface_validity.confounding_figures import confounding_figures
from evaluation.interface_validity.cost_figures import cost_figures
from evaluation.interface_validity.filter_figures import filter_figures, verdicts
from evaluation.interface_validity.image_source_figures import image_source_comparison
from evaluation.interface_validity.images import ImageSource, placed
from evaluation.interface_validity.impact_figures import impact_figures
from evaluation.interface_validity.kernel_distance import kernel_distance, mean_distance
from evaluation.interface_validity.world_shifts import BY_NAME
from evaluation.tests.fakes.interfaces import LAYOUT, NIGHT, SEEDS, SNOW, answers, image, images, seen


def generator() -> np.random.Generator:
    return np.random.default_rng(5)


def true_accuracy(shift: str, name: str, model: int) -> float:
    drop = {BASE: 0.0, SNOW: 0.1, NIGHT: 0.3}[shift]
    return 0.6 + 0.1 * model - drop


def by_the_name(shift: str, name: str, model: int) -> float:
    """The truth's accuracies, except for the mismatched plate."""
    return true_accuracy(shift, name, model) - (0.2 if name == "plate" else 0.0)


def test_a_mismatched_class_name_has_a_larger_error_than_its_token() -> None:
    token, name = (
        placed(images(image_source, accuracy), image_source, LAYOUT).answers()
        for image_source, accuracy in zip(get_args(ImageSource), (true_accuracy, by_the_name), strict=True)
    )
    found = confounding_figures(answers(true_accuracy), token, name, ["plate"], generator())
    assert found.mismatched.class_name_error.estimate == pytest.approx(0.2, abs=0.02)
    assert found.mismatched.token_error.estimate == pytest.approx(0.0, abs=0.02)
    assert found.matched.class_name_error.estimate == pytest.approx(0.0, abs=0.02)
    assert found.all.class_name_error.estimate == pytest.approx(0.1, abs=0.02)
    assert found.by_class["plate"].class_name_error.estimate == found.mismatched.class_name_error.estimate
    assert {(cell.shift, cell.class_name) for cell in found.cells} == {
        (shift, name) for shift in (SNOW, NIGHT) for name in LAYOUT.classes
    }
    assert found.all.token_error.n == 2 * 2 * SEEDS


def test_truth_and_sources_must_share_a_layout() -> None:
    mine = placed(images("token", true_accuracy), "token", LAYOUT).answers()
    other = placed([], "token", LAYOUT.__class__((BASE, NIGHT), LAYOUT.classes, LAYOUT.models)).answers()
    with pytest.raises(ValueError, match="differ"):
        confounding_figures(answers(true_accuracy), mine, other, ["plate"], generator())


def test_impacts_equal_to_the_rendered_ones_are_covered_without_error() -> None:
    estimated = placed(images("token", true_accuracy), "token", LAYOUT).answers()
    found = impact_figures(estimated, answers(true_accuracy), generator())
    assert [row.shift for row in found.shifts] == [SNOW, NIGHT]
    assert found.mean_absolute_error.estimate == pytest.approx(0.0, abs=0.01)
    assert found.coverage.estimate == 1.0
    assert found.shifts[1].true_impact.estimate == pytest.approx(0.3, abs=0.01)
    assert found.drop_rank_correlation.n == 6
    # Two shifts are too few for an order.
    assert found.rank_correlation.estimate is None


def test_wrong_impacts_are_not_covered() -> None:
    estimated = placed(
        images("token", lambda shift, name, model: 0.9 if shift == BASE else 0.3), "token", LAYOUT
    ).answers()
    found = impact_figures(estimated, answers(true_accuracy), generator())
    assert found.coverage.estimate == 0.0
    assert found.mean_absolute_error.estimate == pytest.approx(0.4, abs=0.02)


def test_equal_sets_have_no_distance_and_different_sets_do() -> None:
    draw = np.random.default_rng(0)
    near = [draw.normal(size=(60, 8)) + 2.0 for _ in range(2)]
    far = draw.normal(size=(60, 8)) - 2.0
    distance, error = kernel_distance(*near)
    assert abs(distance) < 3 * error
    assert kernel_distance(near[0], far)[0] > 1.0
    mean = mean_distance([(near[0], far), (near[0], near[1])])
    assert mean.estimate is not None
    assert mean.n == 120
    assert mean.estimate == pytest.approx((kernel_distance(near[0], far)[0] + distance) / 2)


def test_the_kernel_distance_averages_all_pairs_of_different_images() -> None:
    draw = np.random.default_rng(1)
    x, y = draw.normal(size=(4, 3)), draw.normal(size=(5, 3))
    unit_x, unit_y = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (x, y))

    def mean(first: np.ndarray, second: np.ndarray, *, apart: bool) -> float:
        pairs = [
            (1.0 + first[i] @ second[j]) ** 3
            for i in range(len(first))
            for j in range(len(second))
            if not (apart and i == j)
        ]
        return float(np.mean(pairs))

    expected = mean(unit_x, unit_x, apart=True) + mean(unit_y, unit_y, apart=True)
    expected -= 2.0 * mean(unit_x, unit_y, apart=False)
    assert kernel_distance(x, y)[0] == pytest.approx(expected)


def test_the_jackknife_leaves_out_each_image_once() -> None:
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(5, 3)), draw.normal(size=(6, 3))
    variance = 0.0
    for side in (x, y):
        left = [
            kernel_distance(*(np.delete(one, out, axis=0) if one is side else one for one in (x, y)))[0]
            for out in range(len(side))
        ]
        variance += (len(left) - 1) ** 2 / len(left) * float(np.var(left, ddof=1))
    assert kernel_distance(x, y)[1] == pytest.approx(np.sqrt(variance))


def test_two_images_are_too_few_to_compare() -> None:
    with pytest.raises(ValueError, match="too few"):
        kernel_distance(np.ones((2, 3)), np.ones((9, 3)))


def test_the_sources_are_compared() -> None:
    made = [image("token", seed=seed, shift=shift) for seed in range(20) for shift in (BASE, SNOW)]
    lost = seen("plate", SNOW, background="sand", object_class="bus")
    made += [
        image(
            "class-name",
            seed=seed,
            shift=shift,
            to_object=0.4,
            seen=lost if shift == SNOW and seed < 5 else seen("plate", shift),
        )
        for seed in range(20)
        for shift in (BASE, SNOW)
    ]
    features = {"plate": np.random.default_rng(0).normal(size=(9, 4))}
    found = image_source_comparison(made, features, {"token": features, "class-name": features}, generator())
    assert found.token.shift_presence.estimate == 1.0
    assert found.class_name.shift_presence.estimate == 0.75
    assert found.class_name.class_accuracy.estimate == 35 / 40
    assert found.presence_ratio.estimate == pytest.approx(4 / 3)
    assert found.class_name.object_similarity.estimate == pytest.approx(0.4)
    assert found.token.presence_by_shift[SNOW].n == 20
    assert found.token.mismatch["plate"].estimate == 0.0
    assert found.token.kernel_distance.n == 9


def test_a_filter_is_compared_with_the_oracle() -> None:
    rows = [image(seed=seed, shift=SNOW, has_shift=seed > 3) for seed in range(8)]
    bad = [image(seed=8, shift=SNOW, has_shift=False, seen=seen("plate"))]
    base = [image(seed=seed, has_object=seed > 0) for seed in range(9)]
    table = placed([*rows, *bad, *base], "token", LAYOUT)
    found = filter_figures(table, verdicts(table))
    assert found.before.estimate == pytest.approx(17 / 18)
    assert found.precision.estimate == 1.0
    assert found.recall.estimate == pytest.approx(12 / 17)
    assert found.yields[SNOW].estimate == pytest.approx(4 / 9)
    assert found.thin == {SNOW: ["plate"]}


def test_the_oracle_judges_whether_each_inspected_image_shows_the_shift() -> None:
    one = {"item": "i-1", "image": "a" * 64, "class_name": "plate", "similarity": 0.3}
    other = {**one, "item": "i-2", "image": "b" * 64}
    looked = Inspections.model_validate(
        {
            "shift": SNOW, "caption": SNOW, "checkpoint": "c", "image_source": "class-name",
            "n": 2, "pending": 0,
            "inspections": [
                {"percentile": 0.0, "similarity": 0.3, "images": [one, other]},
                {"percentile": 50.0, "similarity": 0.3, "images": [other]},
            ],
        }
    )  # fmt: skip

    def fetch(ref: str) -> bytes:
        return encode_png(np.full((4, 4, 3), 255 if ref[0] == "a" else 0, dtype=np.uint8))

    def look(pixels: np.ndarray) -> list[dict[str, str]]:
        return [seen("plate", SNOW if one.min() else BASE) for one in pixels]

    assert shown(looked, BY_NAME[SNOW], fetch, look) == {"i-1": True, "i-2": False}


def test_batching_is_reported_as_a_speedup_and_the_largest_difference() -> None:
    turns: list[str] = []

    def slow() -> None:
        np.linalg.svd(np.ones((150, 150)))
        turns.append("slow")

    found = times_as_fast(slow, lambda: turns.append("fast"), 3)
    # One warm-up call each, then alternately.
    assert turns == ["slow", "fast"] * 4
    assert found.n == 3
    assert found.estimate is not None
    assert found.estimate > 2.0
    gap = largest_difference(
        {"plate": np.zeros((2, 3)), "bus": np.ones((2, 3))},
        {"plate": np.zeros((2, 3)), "bus": np.full((2, 3), 0.75)},
    )
    assert (gap.estimate, gap.n) == (0.25, 12)


def test_the_cost_per_kept_image_divides_the_total_by_the_kept() -> None:
    table = placed([image(seed=seed) for seed in range(10)], "token", LAYOUT)
    kept = table.made & (np.arange(10) < 4)
    found = cost_figures(
        [
            ("one", Cost(unet_evaluations=600, unet_backward_evaluations=600, seconds=20.0)),
            ("one", Cost(unet_evaluations=600, unet_backward_evaluations=600)),
        ],
        {"token": table},
        {"token": kept},
        generator(),
    )
    assert found.token.unet_evaluations.estimate == 1200.0
    assert found.token.seconds.estimate == 10.0
    assert found.image["token"].unet_evaluations.estimate == 16.0
    per_kept = found.kept_image["token"].unet_evaluations
    assert per_kept.estimate == pytest.approx(40.0)
    assert per_kept.n == 4
    assert per_kept.low is not None
    assert per_kept.high is not None
    assert per_kept.low < 40.0 < per_kept.high


def test_duplicate_images_are_refused() -> None:
    with pytest.raises(ValueError, match="the same image"):
        placed([image(), image()], "token", LAYOUT)


def test_a_table_has_only_the_images_of_its_source() -> None:
    table = placed([image("token"), image("class-name", seed=1)], "token", LAYOUT)
    assert table.table.shape[2] == 1
    assert int(table.made.sum()) == 1
