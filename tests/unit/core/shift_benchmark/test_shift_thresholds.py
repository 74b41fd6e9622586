"""The shift threshold: which images a reviewer sees, and what follows from the review."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from counterpose_core.errors import CounterposeError, DatasetEmpty, InvalidRequest
from counterpose_core.shift_benchmark.shift_thresholds import Inspection, ShiftDecision, decide, inspections

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
SIMILARITIES = np.random.default_rng(0).permutation(np.linspace(0.1, 0.3, 201))
PERCENTILES = (0, 25, 50, 75, 100)


def shown() -> tuple[Inspection, ...]:
    return inspections(SIMILARITIES, percentiles=PERCENTILES, images=4)


def decided(shows: dict[int, bool], author: str = "Ada", at: dt.datetime = NOON) -> ShiftDecision:
    return decide("in the snow", shown(), shows, checkpoint="tiny", author=author, decided_at=at)


def by_similarity(least: float) -> dict[int, bool]:
    return {index: bool(SIMILARITIES[index] >= least) for each in shown() for index in each.images}


def test_images_near_each_percentile_are_shown() -> None:
    for each in shown():
        around = SIMILARITIES[list(each.images)]
        assert len(each.images) == 4
        assert np.all(np.abs(around - each.similarity) <= 0.0041)
        assert each.similarity == pytest.approx(0.1 + 0.002 * each.percentile)


def test_percentiles_are_shown_in_order_and_small_sets_at_once() -> None:
    found = inspections([0.2, 0.1], percentiles=(90, 10))
    assert [each.percentile for each in found] == [10, 90]
    assert {each.images for each in found} == {(1, 0)}


@pytest.mark.paper("DI-A3-shift-threshold")
def test_the_lowest_percentile_whose_images_all_show_the_shift_is_accepted() -> None:
    decision = decided(by_similarity(0.19))
    assert decision.percentile == 50
    assert decision.threshold == pytest.approx(0.2)
    assert (decision.author, decision.decided_at, decision.checkpoint) == ("Ada", NOON, "tiny")
    assert decision.failing_above == ()


def test_one_image_without_the_shift_rejects_its_percentile() -> None:
    shows = by_similarity(0.0)
    shows[shown()[0].images[2]] = False
    assert decided(shows).percentile == 25


def test_failures_above_the_accepted_percentile_are_reported() -> None:
    shows = by_similarity(0.0) | dict.fromkeys(shown()[3].images, False)
    decision = decided(shows)
    assert (decision.percentile, decision.failing_above) == (0, (75,))


def test_without_an_accepted_percentile_there_is_no_threshold() -> None:
    decision = decided(dict.fromkeys(by_similarity(0.0), False))
    assert (decision.percentile, decision.threshold, decision.failing_above) == (None, None, ())


def test_an_image_without_a_judgement_is_named() -> None:
    shows = by_similarity(0.0)
    unseen = shown()[1].images[0]
    del shows[unseen]
    with pytest.raises(InvalidRequest, match=f"image {unseen} "):
        decided(shows)


@pytest.mark.parametrize("author", ["", "  ", "Ada\x00", "<b>Ada"])
def test_a_decision_has_an_author(author: str) -> None:
    with pytest.raises(CounterposeError, match="author"):
        decided(by_similarity(0.0), author=author)


def test_the_time_of_a_decision_needs_a_time_zone() -> None:
    with pytest.raises(InvalidRequest, match="no time zone"):
        decided(by_similarity(0.0), at=NOON.replace(tzinfo=None))


def test_a_shift_without_images_cannot_be_inspected() -> None:
    with pytest.raises(DatasetEmpty):
        inspections([])
