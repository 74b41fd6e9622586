"""Classification: the score, the hits and what is shown of an answer, with one right class or several."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.tasks import ClassificationTask
from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.tasks import (
    Classification,
    Truth,
    classification_of,
    figures_of,
    recorded_task,
    task_of,
)

CLASSES = ["plate", "sled", "boat", "kite", "fly", "bee", "bus"]


def predicted(*probabilities: float) -> Prediction:
    """A classifier's answer over the classes."""
    return Prediction.model_construct(probabilities=list(probabilities), top=[], features=None)


def scored(label: str, *probabilities: float, **acceptable: list[str]) -> Scored:
    """The answer as a run scores it whose classes accept others."""
    return Classification(ClassificationTask(acceptable=acceptable), CLASSES).scored(
        predicted(*probabilities), Truth(label)
    )


@pytest.mark.paper("LANCE-D-top5-zero")
def test_the_true_class_has_a_probability_outside_the_top_five() -> None:
    answer = scored("bus", 0.3, 0.2, 0.15, 0.13, 0.12, 0.06, 0.04)
    assert (answer.score, answer.hits, answer.raw) == (0.04, (False, False), {"rank": 7})
    assert "bus" not in [name for name, _ in answer.shown]


def test_the_five_most_probable_are_sorted_and_named() -> None:
    answer = scored("bus", 0.04, 0.06, 0.12, 0.13, 0.15, 0.2, 0.3)
    assert answer.shown == [("bus", 0.3), ("bee", 0.2), ("fly", 0.15), ("kite", 0.13), ("boat", 0.12)]
    assert answer.right
    assert (answer.answer, answer.share) == ("bus", 0.3)


@pytest.mark.parametrize(
    ("label", "hits"), [("sled", (True, True)), ("bee", (False, True)), ("bus", (False, False))]
)
def test_an_answer_hits_by_the_first_or_by_one_of_five(label: str, hits: tuple[bool, bool]) -> None:
    assert scored(label, 0.1, 0.4, 0.15, 0.13, 0.05, 0.12, 0.04).hits == hits


def test_equal_probabilities_rank_in_class_order() -> None:
    assert scored("boat", *[1 / 7] * 7).raw == {"rank": 3}


def test_probabilities_may_sum_to_less_than_1() -> None:
    assert scored("bee", *[0.01] * 7).score == 0.01


@pytest.mark.parametrize(
    "answer",
    [
        predicted(0.5, 0.5),
        predicted(*[0.1] * 8),
        predicted(*[0.5] * 7),
        predicted(1.2, *[0.0] * 6),
        predicted(-0.2, *[0.1] * 6),
        predicted(math.nan, *[0.1] * 6),
        predicted(math.inf, *[0.0] * 6),
    ],
)
def test_invalid_probabilities_are_bad_output(answer: Prediction) -> None:
    with pytest.raises(BadBackendOutput):
        classification_of(CLASSES).scored(answer, Truth("bus"))


def test_an_acceptable_class_is_as_right_and_scores_are_summed() -> None:
    alone = scored("fly", 0.05, 0.05, 0.05, 0.05, 0.3, 0.45, 0.05)
    assert (alone.right, alone.score) == (False, 0.3)
    both = scored("fly", 0.05, 0.05, 0.05, 0.05, 0.3, 0.45, 0.05, fly=["bee"])
    assert both.right
    assert both.score == pytest.approx(0.75)
    assert both.raw == {"rank": 1}
    assert both.shown == alone.shown


def test_what_is_acceptable_for_one_class_is_not_for_another() -> None:
    assert not scored("bee", 0.05, 0.05, 0.05, 0.05, 0.45, 0.3, 0.05, fly=["bee"]).right


def test_a_sum_of_rounded_probabilities_is_no_more_than_1() -> None:
    assert scored("fly", 0.0, 0.0, 0.0, 0.0, 0.5005, 0.5, 0.0, fly=["bee"]).score == 1.0


@pytest.mark.parametrize("acceptable", [{"fly": ["boats"]}, {"boats": ["bee"]}])
def test_a_class_that_the_dataset_lacks_is_refused_by_name(acceptable: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidRequest, match="did you mean") as refused:
        task_of(ClassificationTask(acceptable=acceptable), CLASSES)
    assert refused.value.pointer == "/task/acceptable"


@pytest.mark.parametrize("acceptable", [{"fly": []}, {"fly": ["fly"]}, {"fly": ["bee", "bee"]}])
def test_lists_that_say_nothing_are_refused(acceptable: dict[str, list[str]]) -> None:
    with pytest.raises(ValidationError):
        ClassificationTask(acceptable=acceptable)


def test_answers_of_runs_of_before_read_as_scored() -> None:
    document = {"p_true": 0.2, "rank_true": 4, "top": [["boat", 0.5], ["bus", 0.2]]}
    answer = Scored.model_validate(document)
    assert answer == Scored(
        score=0.2, hits=(False, True), shown=[("boat", 0.5), ("bus", 0.2)], raw={"rank": 4}
    )
    assert Scored.model_validate(answer.model_dump(mode="json")) == answer


def test_figures_say_what_is_right() -> None:
    plain = figures_of(ClassificationTask())
    assert (plain.score, plain.hits, plain.rule) == ("p(true class)", ("acc@1", "acc@5"), "")
    several = figures_of(ClassificationTask(acceptable={"fly": ["bee"], "boat": ["kite", "sled"]}))
    assert several.score == "p(right classes)"
    assert "images of boat may be answered by kite, sled, those of 1 more class by theirs" in several.rule
    assert "7 source images have further labels" in figures_of(ClassificationTask(), 7).rule
    assert (plain.score_of("fly"), several.score_of("fly")) == ("p(fly)", "p(right classes)")


def test_a_recorded_task_is_the_configurations_or_its_requests() -> None:
    several = ClassificationTask(acceptable={"fly": ["bee"]})
    document = several.model_dump(mode="json")
    assert recorded_task({"task": document}) == recorded_task({"request": {"task": document}}) == several
    assert recorded_task({"request": {}}) == recorded_task({}) == ClassificationTask()
    with pytest.raises(ValidationError):
        recorded_task({"task": {"name": "of another version"}})


def test_a_label_of_the_image_is_as_right_as_its_class() -> None:
    answer = predicted(0.05, 0.05, 0.05, 0.05, 0.3, 0.45, 0.05)
    told = classification_of(CLASSES).scored(answer, Truth("fly", ("bee",)))
    assert told.right
    assert told.score == pytest.approx(0.75)
