"""Pairs of two conditions: the worse one alone is the control, and a condition that hurts alone is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from counterpose_core.contract.confirmation import (
    Condition,
    ConjunctionPart,
    Instruction,
    ShownConditions,
)
from counterpose_core.stress_test.confirmation import ConfirmationTest, mean_loss
from counterpose_core.tasks.classification import ranked
from counterpose_gateway.methods.stress_test.observations.conjunction_pairs import (
    ChosenConjunction,
    conjunctions_of,
)
from counterpose_gateway.methods.stress_test.observations.observations import Observation
from counterpose_gateway.methods.stress_test.summary.conjunction_drafts import conjunction_draft
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft

CONDITIONS = [Condition(edit_type="background", words="rain"), Condition(edit_type="object", words="dog")]
PARTS: Sequence[ShownConditions] = ("first", "second", "both")


def image(
    place: int, shows: ShownConditions, p_true: float, state: str = "done", stage: int = 2
) -> Observation:
    done = state == "done"
    wrong = p_true < 0.5
    answered = ranked(p_true, 1 + wrong, [("bee" if wrong else "fly", 0.9)])
    return Observation(
        id=f"{place}-{shows}", kind="confirmation", source=f"s{place}", image="", label="fly",
        edit_type="background", slot=1000, stage=2, state=state,  # type: ignore[arg-type]
        reason=None if done else "gate-ssim", caption=None, removed="", added="",
        after={"vit": answered} if done else {}, before={},
        instruction=Instruction(
            conjunction=ConjunctionPart(conditions=CONDITIONS, shows=shows), classifiers=["vit"]
        ),
        unit=f"s{place}",
    )  # fmt: skip


def images(*places: Mapping[ShownConditions, float]) -> list[Observation]:
    return [image(number, part, p[part]) for number, p in enumerate(places) for part in PARTS]


def test_the_control_is_the_condition_that_costs_more() -> None:
    [each] = conjunctions_of(images({"first": 0.9, "second": 0.6, "both": 0.1}))
    [pair] = each.pairs("vit")
    assert (pair.placebo.id, pair.edit.id) == ("0-second", "0-both")
    assert pair.loss == pytest.approx(0.5)


def test_a_pair_needs_all_three_images() -> None:
    seen = [
        *images({"first": 0.9, "second": 0.9, "both": 0.1}),
        image(1, "first", 0.9),
        image(1, "both", 0.1),
    ]
    lost = image(1, "second", 0.9, state="filtered")
    [each] = conjunctions_of([*seen, lost])
    assert len(each.pairs("vit")) == 1
    assert drafted(each).confirmed.dropped == {"gate-ssim": 1}  # type: ignore[union-attr]


def drafted(each: ChosenConjunction) -> Draft:
    test = ConfirmationTest(n=10, mean=0.5, stopped=False, p=0.001, p_adjusted=0.002)
    return conjunction_draft(
        "vit", each, test, mean_loss(each.columns("vit"), np.random.default_rng(0)), family=1
    )


@pytest.mark.parametrize(("wrong", "state"), [(2, "breaks"), (3, "cannot-tell")])
def test_a_condition_that_hurts_alone_in_over_a_fifth_is_no_conjunction(wrong: int, state: str) -> None:
    places = [{"first": 0.4 if number < wrong else 0.9, "second": 0.9, "both": 0.1} for number in range(10)]
    [each] = conjunctions_of(images(*places))  # type: ignore[arg-type]
    draft = drafted(each)
    assert draft.state == state
    assert ("alone" in draft.finding(1).why) == (state == "cannot-tell")
    assert [(one.words, one.n, one.wrong) for one in draft.conjunction] == [
        ("rain", 10, wrong),
        ("dog", 10, 0),
    ]
