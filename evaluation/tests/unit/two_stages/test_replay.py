"""A replay over the bank says what the product's own stages say, and makes each item once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from counterpose_core.contract.baselines import ClassifierBaseline
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.editor import ReconstructRequest, ReconstructResponse
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import BackendUnavailable, CounterposeError, PromptTooLong
from counterpose_core.tasks import Truth, classification_of
from counterpose_core.types import Estimate
from counterpose_gateway.records.items import PlannedItem
from evaluation.two_stages.bank import Bank, Outcome
from evaluation.two_stages.making import made_by
from evaluation.two_stages.replay import Planned, Replayed, replay
from evaluation.two_stages.stretch import Folder
from fakes.confirmed_runs import StagedRun, finished_run
from fakes.ports import FakeEditor


class Workshop:
    """Makes and classifies through the services of a finished run, and counts what it makes."""

    def __init__(self, run: StagedRun) -> None:
        self.run = run
        self.made: list[PlannedItem] = []

    def make(self, planned: Sequence[PlannedItem], config: StressTestConfig) -> Mapping[str, Outcome]:
        """Make items, anew."""
        self.made += planned
        return asyncio.run(made_by(self.run.services, self.run.world.store, planned, config))

    def answer(self, images: Iterable[tuple[str, str]], specs: Sequence[str]) -> dict[str, dict[str, Scored]]:
        """Classify each image by each classifier."""
        classes = self.run.config.classes
        found: dict[str, dict[str, Scored]] = {}
        for image, label in images:
            for spec in specs:
                request = ClassifyRequest(classifier=spec, images=[image], classes=classes)
                answered = asyncio.run(self.run.services.classifiers.classify(request))
                pair = classification_of(classes).scored(answered.outcomes[0].unwrap(), Truth(label))
                found.setdefault(image, {})[spec] = pair
        return found


@pytest.fixture(scope="module")
def finished() -> StagedRun:
    return asyncio.run(finished_run())


def replayed(workshop: Workshop, bank: Bank, *classifiers: str) -> Replayed:
    """Replay the finished run, for some of its classifiers."""
    config = workshop.run.config
    request = config.request.model_copy(
        update={"classifiers": list(classifiers) or config.request.classifiers}
    )
    # As the gateway plans it: with the accuracy of its own classifiers.
    right = Estimate(estimate=1.0, low=0.5, high=1.0, n=8)
    baseline = [ClassifierBaseline(classifier=spec, accuracy=right, of=8) for spec in request.classifiers]
    config = config.model_copy(update={"request": request, "baseline": baseline})
    planned = Planned(config, workshop.run.stages[0])
    return replay(request, Folder(40), planned, bank, workshop.make, workshop.answer)


def test_a_replay_finds_what_the_run_found(finished: StagedRun, tmp_path: Path) -> None:
    expected = finished.summary(state="completed").findings
    found = replayed(Workshop(finished), Bank(tmp_path / "bank.jsonl")).summary.findings
    assert [each.sentence for each in found] == [each.sentence for each in expected]
    assert [each.confirmed for each in found] == [each.confirmed for each in expected]
    assert any(each.state == "breaks" for each in found)


def test_a_second_replay_makes_nothing(finished: StagedRun, tmp_path: Path) -> None:
    workshop, path = Workshop(finished), tmp_path / "bank.jsonl"
    first = replayed(workshop, Bank(path))
    made = len(workshop.made)
    assert made == len(first.items)
    assert replayed(workshop, Bank(path)).summary == first.summary
    assert len(workshop.made) == made


def test_fewer_classifiers_see_the_same_images(finished: StagedRun, tmp_path: Path) -> None:
    workshop, bank = Workshop(finished), Bank(tmp_path / "bank.jsonl")
    both, alone = replayed(workshop, bank), replayed(workshop, bank, "steady")
    assert not any(each.state == "breaks" for each in alone.summary.findings)
    screen = {item.item_key for item in workshop.run.stages[0]}
    assert sum(item.item_key in screen for item in workshop.made) == len(screen)
    screened = [
        [item.result for item in one.items if item.stage == 1 and item.result] for one in (both, alone)
    ]
    assert [one.image for one in screened[0]] == [one.image for one in screened[1]]
    assert {name for one in screened[1] for name in one.predictions} == {"steady"}


def test_a_cut_line_costs_one_outcome_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    Bank(path).add({"first": Outcome(state="filtered", reason="no-edit"), "second": Outcome(state="done")})
    path.write_bytes(path.read_bytes()[:-5])
    bank = Bank(path)
    assert ("first" in bank, "second" in bank) == (True, False)
    bank.add({"third": Outcome(state="done")})
    assert len(Bank(path)) == 2


def test_an_item_that_no_model_takes_ends_failed(finished: StagedRun) -> None:
    outcome = asyncio.run(_made_by_an_editor_that_refuses(finished, PromptTooLong("too long")))
    assert (outcome.state, outcome.code, outcome.result) == ("failed", PromptTooLong.code, None)


def test_an_item_that_the_services_fail_is_not_kept(finished: StagedRun) -> None:
    with pytest.raises(BackendUnavailable):
        asyncio.run(_made_by_an_editor_that_refuses(finished, BackendUnavailable("gone")))


async def _made_by_an_editor_that_refuses(run: StagedRun, error: CounterposeError) -> Outcome:
    class Refusing(FakeEditor):
        async def reconstruct(self, request: ReconstructRequest) -> ReconstructResponse:
            raise error

    item = next(item for item in run.stages[0] if item.kind == "reconstruction")
    services = replace(run.services, editor=Refusing(run.world))
    return (await made_by(services, run.world.store, [item], run.config))[item.item_key]
