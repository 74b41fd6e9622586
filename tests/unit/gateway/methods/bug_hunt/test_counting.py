"""Which images of a hunt count: each once, and no failure that does not show its label."""

from __future__ import annotations

import pytest

from counterpose_gateway.methods.bug_hunt.counting import RecordedHunt
from counterpose_gateway.steps.failed_samples import (
    DUPLICATE,
    NOT_SHOWN,
    UNANSWERED,
    count_failures,
)
from fakes.hunted_items import sample

THRESHOLD = 0.25


@pytest.mark.paper("BUGS-X-wrong-object")
def test_a_failure_that_shows_no_label_is_left_out_and_counted() -> None:
    items = [sample(1, "bee"), sample(2, "bee", similarity=0.1), sample(3)]
    found = count_failures(items, "model", THRESHOLD)
    assert (found.counts.failures, found.counts.images, found.dropped) == (1, 2, {NOT_SHOWN: 1})
    assert found.hidden == 1


def test_another_classifier_s_right_answer_says_that_the_label_is_there() -> None:
    dark = sample(1, "bee", similarity=0.1, others={"control": "fly"})
    assert count_failures([dark], "model", THRESHOLD).counts.failures == 1


@pytest.mark.parametrize("similarity", [None, 0.1])
def test_without_a_threshold_or_a_similarity_every_failure_counts(similarity: float | None) -> None:
    threshold = THRESHOLD if similarity is None else None
    assert count_failures([sample(1, "bee", similarity=similarity)], "model", threshold).counts.failures == 1


def test_an_image_counts_once_however_often_it_was_drawn() -> None:
    same = [sample(number, "bee", image="a" * 64) for number in range(3)]
    found = count_failures(same, "model", None)
    assert (found.counts.images, found.dropped) == (1, {DUPLICATE: 2})


def test_failed_items_and_missing_answers_are_told_by_reason() -> None:
    failed = sample(1).model_copy(update={"state": "failed", "code": "bad-backend-output", "result": None})
    found = count_failures([failed, sample(2)], "control", None)
    assert (found.counts.images, found.dropped) == (0, {"bad-backend-output": 1, UNANSWERED: 1})


def test_the_threshold_is_a_low_percentile_of_images_that_some_classifier_answers_rightly() -> None:
    right = [sample(number, similarity=0.3 + number / 1000) for number in range(40)]
    wrong = [sample(number, "bee", similarity=-0.5) for number in range(40, 60)]
    seen = [sample(number, "bee", similarity=0.2, others={"control": "fly"}) for number in range(60, 61)]
    found = RecordedHunt.of([*right, *wrong, *seen]).threshold("fly")
    assert found.n == 41
    assert found.threshold == pytest.approx(0.301, abs=2e-3)
    assert RecordedHunt.of(right[:19]).threshold("fly").threshold is None


def test_failures_are_counted_once_for_each_classifier_and_prompt() -> None:
    hunt = RecordedHunt.of([sample(n, "bee" if n < 3 else "fly") for n in range(30)])
    counted = hunt.counted("baseline", "fly", "model")
    assert (counted.counts.failures, counted.counts.images) == (3, 30)
    assert hunt.counted("baseline", "fly", "model") is counted
    assert hunt.counted("held-out", "fly", "model").counts.images == 0
    assert hunt.threshold("fly") is hunt.threshold("fly")
