"""Thresholds of a request, and a stress test judged again by others: nothing is made, nothing is guessed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from counterpose_core.contract.confirmation import SuspectedChange, Wording
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.thresholds import JudgingAgain, summarize_again
from counterpose_gateway.services.ports import Services
from fakes.findings import a_finding
from fakes.ports import FakeScorer, fake_services
from fakes.recorder import recorded_items, recorded_run
from fakes.runs import planned, stress_test
from fakes.world import FakeWorld, fake_suite

STRICTER = {"direction": 0.4}
"""No value with a lower direction can take the best one's place, so nothing has to be left out."""


class _Varied(FakeScorer):
    """Cosines that each image draws, from its own caption and fraction."""

    def measure(self, item: ScoreItem) -> EditScores:
        shown = self.world.shown[item.edited]
        drawn = hashlib.sha256(f"{item.original}{shown.caption}{shown.strength}".encode()).digest()
        direction, likeness, fit = (0.1 + 0.8 * byte / 255 for byte in drawn[:3])
        changes = {"direction": direction, "image_image": 0.6 + 0.4 * likeness, "text_edited": fit}
        return super().measure(item).model_copy(update=changes)

    def vector(self, text: str) -> list[float]:
        """Texts lean to one direction, each as far as it draws, so that some words come near to others."""
        leaning = 50.0 * hashlib.sha256(text.encode()).digest()[0] / 255
        return [leaning, *super().vector(text)[1:]]


def varied(world: FakeWorld) -> Services:
    return fake_services(world, scorer=_Varied(world))


async def made(**changes: Any) -> tuple[Run, list[Item]]:
    """A run over twelve sources whose scores vary, as it was recorded."""
    world = FakeWorld()
    sources, services = world.sources(3), varied(world)
    config, _ = await planned(sources, services, confirm=False, **changes)
    items, record = await stress_test(world, sources, services, confirm=False, **changes)
    recorded = recorded_items(items, record)
    return recorded_run(config, recorded), recorded


Outcome = tuple[str, str | None, str | None]


def outcomes(items: Sequence[Item]) -> dict[tuple[str, str, str | None, int], Outcome]:
    """State, reason and kept image by source, kind, edit type and slot."""
    return {
        (item.item_group, item.kind, item.edit_type, item.slot): (
            item.state,
            item.reason,
            item.result.image if item.result and item.state == "done" else None,
        )
        for item in items
    }


def figures(summary: StressTestSummary) -> dict[str, Any]:
    return summary.model_dump(exclude={"config", "judged_again", "cost", "service_seconds"})


async def judged(run: Run, items: list[Item], **thresholds: Any) -> tuple[JudgingAgain, list[Item]]:
    config = StressTestConfig.model_validate(run.resolved_config)
    judging = JudgingAgain(config, Thresholds.model_validate(thresholds))
    return judging, list(judging.items(items))


async def test_a_request_sets_thresholds_and_sweep_and_the_configuration_records_them() -> None:
    world = FakeWorld()
    config, _ = await planned(
        world.sources(1), fake_services(world), strength=[0.2, 0.9],
        thresholds={"image_image": 0.5, "closer": False, "word_similarity": 0.7},
    )  # fmt: skip
    suite = fake_suite().scorer
    assert config.editing.sweep == (0.2, 0.9)
    assert config.gate == suite.gate.model_copy(update={"image_image": 0.5, "closer": False})
    assert config.text == suite.text.model_copy(update={"word_similarity": 0.7})


@pytest.mark.paper("LANCE-A1-1-inputs")
async def test_the_runs_own_thresholds_decide_what_is_kept() -> None:
    _, items = await made(thresholds={"image_image": 0.9}, strength=[0.5])
    edits = [item for item in items if item.kind == "edit" and item.result and item.result.scores]
    assert {item.result.strength for item in edits if item.result} == {0.5}
    assert {item.state for item in edits} == {"done", "filtered"}
    kept = [item.result.scores.image_image for item in edits if item.result and item.result.scores
            if item.state == "done"]  # fmt: skip
    assert min(kept) >= 0.9


@pytest.mark.parametrize("changes", [{}, {"selection": "released"}, {"preset": "preview"}], ids=str)
async def test_judged_again_by_its_own_thresholds_a_run_has_its_own_figures(changes: dict[str, Any]) -> None:
    run, items = await made(**changes)
    config = StressTestConfig.model_validate(run.resolved_config)
    own = Thresholds.model_validate({**config.gate.model_dump(), **config.text.model_dump()})
    again = summarize_again(run, items, own)
    assert figures(again) == figures(summarize(run, items))
    assert again.judged_again is not None
    assert (again.judged_again.dropped, again.judged_again.left_out) == (0, {})


@pytest.mark.parametrize("closer", [True, False])
async def test_a_stricter_direction_gives_the_figures_of_a_run_that_was_made_with_it(closer: bool) -> None:
    own = {"closer": closer}
    run, items = await made(thresholds=own)
    made_strictly = await made(thresholds=own | STRICTER)
    again = summarize_again(run, items, Thresholds.model_validate(STRICTER))
    assert figures(again) == figures(summarize(*made_strictly))
    assert again.judged_again is not None
    assert again.judged_again.left_out == {}
    assert 0 < again.judged_again.dropped < len(items)


@pytest.mark.parametrize(
    "thresholds",
    [
        {"image_image": 0.85}, {"image_image": 0.4}, {"direction": -1.0}, {"closer": False},
        {"image_text": 0.28, "direction": 0.35}, {"word_similarity": 0.4}, {"word_similarity": 1.0},
        {"class_similarity": 0.3, "image_image": 0.8}, {"class_similarity": 0.99},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("selection", ["paper", "released"])
async def test_what_can_be_judged_again_is_as_in_a_run_that_was_made_with_the_thresholds(
    thresholds: dict[str, Any], selection: str
) -> None:
    run, items = await made(selection=selection)
    _, other = await made(selection=selection, thresholds=thresholds)
    judging, again = await judged(run, items, **thresholds)
    expected = outcomes(other)
    known = outcomes(again)
    assert known.items() <= expected.items()
    left_out = judging.told().left_out
    assert sum(left_out.values()) == len(expected) - len(known)
    assert set(left_out) <= {"not-made", "not-classified"}
    # Nothing is left out that both runs kept with the same image.
    same = outcomes(items).items() & expected.items()
    assert {name for name, (state, _, _) in same if state == "done"} <= known.keys()


async def test_looser_text_thresholds_tell_how_many_edits_were_never_made() -> None:
    run, items = await made(thresholds={"word_similarity": 0.2})
    judging, _ = await judged(run, items, word_similarity=0.95)
    told = judging.told()
    never = [item for item in items if item.reason in ("edit-too-similar", "label-in-edit")]
    assert 0 < len(never) <= told.left_out["not-made"]
    assert told.share_left_out.estimate == pytest.approx(sum(told.left_out.values()) / len(decided(items)))
    assert told.share_left_out.low is not None
    assert "would be another edit, which was never made" in str(told)
    assert "word_similarity 0.95 (the run's: 0.2)" in str(told)


def decided(items: Sequence[Item]) -> list[Item]:
    """The items that thresholds decide on."""
    return [item for item in items if item.kind in ("edit", "placebo") and item.state != "failed"]


async def test_an_older_run_is_judged_as_far_as_its_scores_reach() -> None:
    run, items = await made()
    older = [
        item if item.result is None else item.model_copy(
            update={"result": item.result.model_copy(update={"sweep": [], "text": None})}
        )
        for item in items
    ]  # fmt: skip
    judging, again = await judged(run, older, **STRICTER)
    _, exact = await judged(run, items, **STRICTER)
    assert outcomes(again).items() <= outcomes(exact).items()
    assert set(judging.told().left_out) == {"not-scored"}


async def test_a_run_that_proves_a_finding_is_not_judged_again() -> None:
    run, items = await made()
    proof = Proof(
        parent="run-0", finding=a_finding(), images=6, family=3,
        change=SuspectedChange(edit_type="background", removed="grass", added="snow"),
        wordings=[Wording(removed="on the grass", added="in the snow")],
    )  # fmt: skip
    proving = run.model_copy(update={"resolved_config": run.resolved_config | {"proof": proof.model_dump()}})
    with pytest.raises(InvalidRequest, match="'run-1' proves a finding of run 'run-0'"):
        summarize_again(proving, items, Thresholds(direction=0.3))
