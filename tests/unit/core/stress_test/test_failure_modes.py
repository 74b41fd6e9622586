"""LANCE's failure modes as tags: which recorded facts raise which suspicion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpose_core.stress_test.failure_modes import (
    FAILURE_MODES,
    RULES,
    Answer,
    FailureMode,
    KeptEdit,
    find_failure_modes,
)
from counterpose_core.text.caption_diff import Span, difference
from counterpose_core.types import EditType

KEPT = Answer(
    p_before=0.9,
    p_after=0.8,
    before="howler monkey",
    after="howler monkey",
    right_before=True,
    right_after=True,
)
LOST = replace(KEPT, p_after=0.2, after="chimpanzee", right_after=False)
CAPTION = "A photo of a black howler monkey in a tree."


def indices(spans: tuple[Span, ...]) -> frozenset[int]:
    return frozenset(span.start + offset for span in spans for offset in range(len(span.words)))


def edit(
    edited: str, *answers: Answer, edit_type: EditType = "adjective", fit: float | None = 0.0
) -> KeptEdit:
    words = difference(CAPTION, edited)
    return KeptEdit(
        item=edited,
        object_class="howler monkey",
        edit_type=edit_type,
        caption=CAPTION,
        edited_caption=edited,
        removed=indices(words.removed),
        added=indices(words.added),
        fit=fit,
        answers={f"model-{index}": answer for index, answer in enumerate(answers or (KEPT, KEPT))},
    )


def tags(*edits: KeptEdit) -> set[FailureMode]:
    return {mode for mode, items in find_failure_modes(edits).items() if edits[-1].item in items}


PURPLE = "A photo of a purple howler monkey in a tree."


@pytest.mark.paper("LANCE-X-label-incompatible")
def test_an_object_adjective_that_fools_every_classifier_is_label_incompatible() -> None:
    assert tags(edit(PURPLE, LOST, replace(LOST, after="gibbon"))) == {"label-incompatible"}
    assert tags(edit("A photo of a purple black howler monkey in a tree.", LOST)) == {"label-incompatible"}


def test_an_adjective_that_one_classifier_withstands_is_compatible() -> None:
    assert tags(edit(PURPLE, LOST, KEPT)) == set()


def test_an_adjective_of_another_object_is_compatible() -> None:
    assert tags(edit("A photo of a black howler monkey in a purple tree.", LOST)) == set()


@pytest.mark.paper("LANCE-X-changes-label")
def test_agreement_on_another_class_suggests_a_changed_truth() -> None:
    elsewhere = "A photo of a black howler monkey in a house."
    assert tags(edit(elsewhere, LOST, LOST, edit_type="background")) == {"changed-truth"}


@pytest.mark.parametrize(
    "answers",
    [
        (LOST,),
        (LOST, replace(LOST, after="gibbon")),
        (LOST, replace(LOST, before="gibbon", right_before=False)),
    ],
)
def test_one_classifier_or_disagreement_does_not_suggest_a_changed_truth(answers: tuple[Answer, ...]) -> None:
    assert tags(edit("A photo of a black howler monkey in a house.", *answers, edit_type="object")) == set()


@pytest.mark.paper("LANCE-X-inherited-bias")
@pytest.mark.parametrize("added", ["woman", "people", "Lifeguard"])
def test_words_about_people_may_add_generator_bias(added: str) -> None:
    assert tags(edit(f"A photo of a black howler monkey in a tree with a {added}.", edit_type="object")) == {
        "inherited-bias"
    }


@pytest.mark.paper("LANCE-X-meaningless")
@pytest.mark.parametrize(
    "edited",
    [
        "A video of a black howler monkey in a tree.",
        "A photo of the black howler monkey in a tree.",
        "A photo of a black howler-monkey in the tree.",
    ],
)
def test_words_that_no_still_image_can_show_are_meaningless(edited: str) -> None:
    assert tags(edit(edited, edit_type="domain")) == {"meaningless-edit"}


def test_a_painting_is_a_domain_change() -> None:
    assert tags(edit("A painting of a black howler monkey in a tree.", edit_type="domain")) == set()


@pytest.mark.paper("LANCE-X-poor-quality")
def test_an_image_that_matches_its_caption_far_worse_than_others_is_poor() -> None:
    usual = [edit(f"{PURPLE} {index}", KEPT, fit=0.01 * index) for index in range(8)]
    assert tags(*usual, edit(PURPLE, KEPT, fit=-0.3)) == {"poor-quality"}
    assert tags(*usual, edit(PURPLE, KEPT, fit=0.0)) == set()
    assert tags(*usual, edit(PURPLE, KEPT, fit=None)) == set()


def test_few_edits_have_no_outliers() -> None:
    assert tags(edit("a", fit=0.1), edit("b", fit=0.1), edit(PURPLE, fit=-0.9)) == set()


def test_every_failure_mode_of_the_paper_has_a_rule() -> None:
    assert set(RULES) == set(FAILURE_MODES)
    assert len(FAILURE_MODES) == 5
    assert find_failure_modes([]) == {mode: [] for mode in FAILURE_MODES}
