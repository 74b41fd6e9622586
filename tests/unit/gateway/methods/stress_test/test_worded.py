"""Findings by their words: what is said where one wording of a change hurts and another does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from counterpose_core.contract.confirmation import Instruction, SuspectedChange, Wording
from counterpose_core.contract.findings import Finding, FindingState, Screened
from counterpose_core.stress_test.screening import Change
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.confirm.captioned import BLOCK, CaptionedSources
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import FreshPair
from counterpose_gateway.methods.stress_test.observations.observations import Observation
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, Pair
from counterpose_gateway.methods.stress_test.summary.findings import without_twins
from counterpose_gateway.methods.stress_test.summary.worded import WordedPairs
from fakes.ports import fake_services
from fakes.runs import planned
from fakes.world import FakeWorld

Words = tuple[str, str]
GONE: Words = ("next to a ball", "")
PERSON: Words = ("ball", "person")


def shown(
    source: str, kind: ItemKind, words: Words = ("", ""), p_true: float = 0.95, draw: int = 1
) -> Observation:
    right = p_true >= 0.5
    top = [("boat" if right else "kite", max(p_true, 1 - p_true))]
    answer = {"net": ranked(p_true, 1 if right else 2, top)}
    wording = None if kind == "placebo" else Wording(removed=words[0], added=words[1])
    return Observation(
        id=f"{source}/{kind}/{draw}", kind=kind, source=source, image=source, label="boat",
        edit_type="object", slot=0, stage=2, state="done", reason=None, caption=None, removed=words[0],
        added=words[1], after=answer, before=answer, instruction=Instruction(wording=wording, draw=draw),
        unit=source,
    )  # fmt: skip


def pairs(words: Words, number: int, p_true: float, first: int = 0) -> list[FreshPair]:
    """Redraws of five images, whose edits have this p(true class)."""
    found = []
    for count in range(first, first + number):
        place = f"boat-{count % 5}", 1 + count // 5
        control = shown(place[0], "placebo", draw=place[1])
        edit = shown(place[0], "confirmation", words, p_true, draw=place[1])
        found.append(FreshPair(control, edit, 0.95 - p_true))
    return found


def draft_of(words: Words, made: list[FreshPair], state: FindingState = "breaks") -> Draft:
    """The finding of a tested change with these pairs, proven by default."""
    screened = Screened(loss=0.5, n_sources=3, n_images=3, flipped=3)
    shown_pairs = [Pair(pair.placebo, pair.edit, pair.loss) for pair in made]
    draft = Draft(state, "net", "boat", "object", words, screened, None, shown_pairs)
    worded = WordedPairs("net", made, True, "finding/net", LanceEstimator(0))
    kept = [pair for pair in shown_pairs if state != "breaks" or pair.edit.wording_key in worded.named]
    return worded.of(replace(draft, pairs=kept))


def finding_of(words: Words, made: list[FreshPair]) -> Finding:
    return draft_of(words, made).finding(1)


def test_a_missing_ball_is_not_blamed_for_the_person_in_its_place() -> None:
    found = finding_of(("next to a ball", ""), pairs(PERSON, 17, 0.05) + pairs(GONE, 8, 0.95, first=17))
    assert (found.removed, found.added) == PERSON
    assert found.sentence == "net takes boats for kites once “ball” becomes “person”: 17 of 17 images."
    assert found.tested == SuspectedChange(edit_type="object", removed="next to a ball", added="")
    assert [(each.removed, each.added, each.n, each.flipped, each.named) for each in found.wordings] == [
        ("ball", "person", 17, 17, True), ("next to a ball", "", 8, 0, False)
    ]  # fmt: skip


def test_gone_is_said_of_a_removal_that_hurts_by_itself() -> None:
    found = finding_of(("next to a ball", ""), pairs(PERSON, 10, 0.05) + pairs(GONE, 10, 0.05, first=10))
    assert "once “next to a ball” is gone: 20 of 20" in found.sentence
    assert found.tested is None


def test_a_wording_with_few_pairs_stands_in_the_sentence_as_untested() -> None:
    found = finding_of(("next to a ball", ""), pairs(PERSON, 15, 0.05) + pairs(GONE, 5, 0.05, first=15))
    assert "once “next to a ball” changes: 20 of 20" in found.sentence
    assert found.sentence.endswith(" Untested alone: “next to a ball” is gone (5).")
    assert [each.p is None for each in found.wordings] == [False, True]


def test_a_change_that_only_ever_was_a_replacement_is_not_said_to_be_gone() -> None:
    person = pairs(PERSON, 10, 0.05)
    gone = finding_of(("ball", ""), person + pairs(("ball", "dog"), 10, 0.05, first=10))
    assert "once “ball” becomes something else" in gone.sentence
    there = finding_of(("", "person"), person + pairs(("dog", "person"), 10, 0.05, first=10))
    assert "once something becomes “person”" in there.sentence


def test_a_narrowed_finding_is_part_of_the_proven_one_that_its_words_show() -> None:
    narrowed = draft_of(("next to a ball", ""), pairs(PERSON, 17, 0.05) + pairs(GONE, 8, 0.95, first=17))
    twin = draft_of(("", "person"), pairs(("", "next to a person"), 14, 0.05))
    other = draft_of(("", "dog"), pairs(("", "next to a dog"), 14, 0.05))
    (merged,) = without_twins([narrowed, twin])
    assert merged.words == ("", "person")
    assert [(each.removed, each.added, each.n) for each in merged.wordings] == [
        ("", "next to a person", 14), ("ball", "person", 17)
    ]  # fmt: skip
    assert len(without_twins([narrowed, other])) == 2


def test_the_only_wording_of_a_change_is_as_proven_as_the_change() -> None:
    found = finding_of(("next to a ball", ""), pairs(GONE, 6, 0.05))
    assert found.sentence == "net takes boats for kites once “next to a ball” is gone: 6 of 6 images."


@pytest.mark.parametrize("state", ["holds", "cannot-tell"])
def test_a_finding_that_is_not_proven_speaks_of_all_its_wordings(state: FindingState) -> None:
    made = pairs(PERSON, 17, 0.05) + pairs(GONE, 8, 0.95, first=17)
    told = draft_of(("next to a ball", ""), made, state)
    assert (told.words, told.tested) == (("next to a ball", ""), None)
    assert {each.named for each in told.wordings} == {True}


def test_a_wording_of_both_findings_is_told_once_and_one_that_parted_is_no_twin() -> None:
    narrowed = draft_of(("next to a ball", ""), pairs(PERSON, 17, 0.05) + pairs(GONE, 8, 0.95, first=17))
    both = draft_of(("", "person"), pairs(PERSON, 10, 0.05) + pairs(("", "person"), 10, 0.05, first=10))
    (merged,) = without_twins([narrowed, both])
    assert [each.n for each in merged.wordings] == [10, 10]
    unlike = pairs(("", "person"), 12, 0.05) + pairs(PERSON, 12, 0.95, first=12)
    assert len(without_twins([narrowed, draft_of(("", "person"), unlike)])) == 2


def test_a_wording_has_images_enough_for_its_test_before_the_next_one_has_any() -> None:
    world = FakeWorld()
    config, _ = asyncio.run(planned(world.sources(1), fake_services(world), redraw="quick"))
    captioned = [
        replace(shown(f"boat-{number}", "caption"), stage=1, caption="a boat next to a ball")
        for number in range(40)
    ]
    sources = CaptionedSources(config, captioned)
    wordings = [Wording(removed=removed, added=added) for removed, added in (PERSON, GONE)]
    change = Change("boat", "object", "ball", "")
    for showings in (sources.fresh(change, wordings), sources.redrawn(change, wordings)):
        said = [each.wording.added for each in showings]
        assert said[:24] == ["person"] * BLOCK + [""] * BLOCK
    one, other = ({each.place[0] for each in showings[at : at + BLOCK]} for at in (0, BLOCK))
    assert one == other
