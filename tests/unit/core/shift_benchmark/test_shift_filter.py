"""Filtering images by stored scores, and the resulting yields."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest, NumericalFailure
from counterpose_core.shift_benchmark.shift_filter import FilterThresholds, ImageScores, judge, yields

SNOW = "in the snow"


def scores(to_object: object, to_shift: object, made: object = None) -> ImageScores:
    objects = np.asarray(to_object, dtype=np.float32)
    there = np.ones(objects.shape, dtype=np.bool_) if made is None else np.asarray(made, dtype=np.bool_)
    return ImageScores(
        checkpoint="tiny",
        conditions=("base", SNOW),
        classes=("cat", "dog"),
        made=there,
        to_object=objects,
        to_shift=np.asarray(to_shift, dtype=np.float32),
    )


def drawn(n: int = 20) -> ImageScores:
    draw = np.random.default_rng(1)
    to_shift = draw.uniform(0.0, 0.3, size=(2, 2, n))
    to_shift[0] = np.nan
    return scores(draw.uniform(0.0, 0.3, size=(2, 2, n)), to_shift, draw.uniform(size=(2, 2, n)) < 0.9)


def thresholds(shift: float | None = 0.15, objects: object = (0.1, 0.2)) -> FilterThresholds:
    return FilterThresholds("tiny", np.asarray(objects), {SNOW: shift})


@pytest.mark.paper("DI-S3.1-filter")
def test_an_image_is_kept_if_it_reaches_both_thresholds() -> None:
    found = judge(
        scores(
            [[[0.1, 0.09], [0.2, 0.19]], [[0.1, 0.1], [0.19, 0.2]]],
            [[[np.nan] * 2] * 2, [[0.15, 0.14], [0.2, 0.15]]],
        ),
        thresholds(),
    )
    # float32 0.1 and 0.2 lie above, 0.15 above the thresholds' doubles.
    assert found.kept.tolist() == [[[True, False], [True, False]], [[True, False], [False, True]]]


def test_the_base_is_not_filtered_by_shift() -> None:
    found = judge(drawn(), thresholds())
    assert np.array_equal(found.kept[0], found.made[0] & found.has_object[0])


def test_images_that_were_not_generated_are_not_kept() -> None:
    found = judge(drawn(), thresholds(-1.0, (-1.0, -1.0)))
    assert np.array_equal(found.kept, drawn().made)


def test_without_an_accepted_threshold_nothing_passes() -> None:
    assert not judge(drawn(), thresholds(None)).kept[1].any()


def test_styles_have_separate_object_thresholds() -> None:
    own = judge(drawn(), thresholds(objects=[[0.1, 0.2], [-1.0, -1.0]]))
    assert np.array_equal(own.has_object[1], own.made[1])
    assert np.array_equal(own.has_object[0], judge(drawn(), thresholds()).has_object[0])


def test_a_higher_threshold_keeps_a_subset() -> None:
    kept = [judge(drawn(), thresholds(least)).kept for least in (0.0, 0.1, 0.2, 0.25)]
    assert all(np.all(some <= more) for more, some in itertools.pairwise(kept))


def test_thresholds_of_another_clip_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="for 'ViT-H-14', but the scores are by 'tiny'"):
        judge(drawn(), dataclasses.replace(thresholds(), checkpoint="ViT-H-14"))


def test_a_shift_without_a_threshold_is_named() -> None:
    with pytest.raises(InvalidRequest, match=f"'{SNOW}'"):
        judge(drawn(), FilterThresholds("tiny", 0.1, {"red": 0.1}))


def test_scores_of_generated_images_must_be_cosines() -> None:
    broken = drawn()
    broken.to_shift[1][~broken.made[1]] = np.nan
    assert judge(dataclasses.replace(broken), thresholds()).kept.any()
    broken.to_shift[1] = np.nan
    with pytest.raises(NumericalFailure):
        dataclasses.replace(broken)
    with pytest.raises(InvalidRequest, match="shapes"):
        dataclasses.replace(drawn(), classes=("cat",))


@pytest.mark.paper("DI-X-missing-object", "DI-X-missing-shift")
def test_yields_report_what_each_criterion_dropped() -> None:
    verdicts = judge(drawn(), thresholds())
    for index, (name, found) in enumerate(yields(verdicts).items()):
        for number, each in enumerate(found.by_class.values()):
            made, has_object, has_shift = (
                flags[index, number] for flags in (verdicts.made, verdicts.has_object, verdicts.has_shift)
            )
            assert each.made == made.sum()
            assert each.without_object == np.sum(made & ~has_object & has_shift)
            assert each.without_shift == np.sum(made & has_object & ~has_shift)
            assert each.without_both == np.sum(made & ~has_object & ~has_shift)
            assert each.kept == verdicts.kept[index, number].sum()
            assert each.share.n == each.made
        assert found.total.kept == verdicts.kept[index].sum()
        assert found.total.made == sum(each.made for each in found.by_class.values())
        assert verdicts.conditions[index] == name


def test_classes_with_fewer_than_five_images_left_are_named() -> None:
    to_object = np.zeros((2, 2, 8))
    to_object[1, 0, :4] = to_object[1, 1, :5] = to_object[0] = 0.3
    found = yields(judge(scores(to_object, np.full((2, 2, 8), 0.3)), thresholds()))
    assert (found["base"].thin, found[SNOW].thin) == ((), ("cat",))


def test_a_class_without_generated_images_is_not_named() -> None:
    made = np.ones((2, 2, 8), dtype=np.bool_)
    made[1, 1] = False
    found = yields(judge(scores(np.full((2, 2, 8), 0.3), np.full((2, 2, 8), 0.3), made), thresholds()))
    assert found[SNOW].thin == ()
    assert found[SNOW].by_class["dog"].share.estimate is None
