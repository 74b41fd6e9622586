"""Findings of a stress test: states, pairs, what the images are taken for, and what the screen suspects."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.findings import Confirmed, Finding
from counterpose_core.errors import BackendUnavailable
from counterpose_core.stress_test.confirmation import ConfirmationTest, PairColumns, mean_loss
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.findings import state_of
from fakes.confirmed_runs import StagedRun, finished_run, run_after_screen
from fakes.ports import FakeClassifiers, fake_services
from fakes.recorder import lease_all


@pytest.fixture(scope="module")
def run() -> StagedRun:
    """The default run, at its end; only to be read."""
    return asyncio.run(finished_run())


@pytest.fixture(scope="module")
def findings(run: StagedRun) -> list[Finding]:
    return run.findings()


def confirmed(finding: Finding) -> Confirmed:
    assert finding.confirmed is not None
    return finding.confirmed


def test_a_change_that_fools_every_fresh_image_breaks_the_classifier(findings: list[Finding]) -> None:
    assert [(each.number, each.state, each.classifier) for each in findings] == [
        (number, "breaks", "leaning") for number in (1, 2, 3, 4)
    ]
    assert {each.object_class for each in findings} == {"plate", "sled", "boat", "kite"}
    for each in findings:
        test = confirmed(each)
        assert (test.loss.n, test.p, test.family_size) == (10, 2**-10, 4)
        assert test.p_adjusted == 4 * 2**-10
        assert (each.flipped, each.of, test.flipped, test.dropped) == (10, 10, 10, {})


def test_a_finding_says_what_its_images_are_taken_for(findings: list[Finding]) -> None:
    plate = next(each for each in findings if each.object_class == "plate")
    assert plate.taken_for == "sled"
    assert plate.sentence.startswith("leaning takes plates for sleds once “on the grass” becomes")
    assert plate.sentence.endswith(": 10 of 10 images.")


def test_its_pairs_are_fresh_items_of_the_run(run: StagedRun, findings: list[Finding]) -> None:
    items = {item.id: item for item in run.items}
    screened = {item.item_group for item in run.items if item.kind == "edit"}
    for each in findings:
        assert len(each.pairs) == 10
        for pair in each.pairs:
            control, edit = items[pair.control or ""], items[pair.edit]
            assert (control.kind, edit.kind) == ("placebo", "confirmation")
            assert control.item_group == edit.item_group == pair.source
            assert pair.source not in screened
            assert pair.loss == pytest.approx(0.8)


def test_what_the_screen_saw_stands_apart_from_the_estimate(findings: list[Finding]) -> None:
    for each in findings:
        assert each.screened.n_sources == each.screened.n_images == each.screened.flipped == 10


def test_the_wordings_are_counted(findings: list[Finding]) -> None:
    words = [(each.removed, each.added, each.n) for each in findings[0].wordings]
    assert words == [("on the grass", "in the snow", 10)]


class Wavering(FakeClassifiers):
    """Snow costs ``leaning`` more the more images it has seen: the losses of pairs differ."""

    least = 0.0

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        shown = self.world.shown[image]
        if request.classifier != "leaning" or "snow" not in shown.caption:
            return super().predict(request, image)
        p_true = self.least + int(image[:2], 16) / 512
        rest = (1.0 - p_true) / (len(request.classes) - 1)
        probabilities = [p_true if name == shown.label else rest for name in request.classes]
        top = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[:5]
        return Prediction(probabilities=probabilities, top=top)


class Milder(Wavering):
    """Snow costs it 0.1 to 0.6."""

    least = 0.3


async def test_the_pair_with_the_median_loss_comes_first() -> None:
    run = await finished_run(lambda world: fake_services(world, classifiers=Wavering(world)))
    for each in run.findings():
        losses = sorted(pair.loss for pair in each.pairs)
        middle = (losses[(len(losses) - 1) // 2] + losses[len(losses) // 2]) / 2
        distances = [abs(pair.loss - middle) for pair in each.pairs]
        assert distances == sorted(distances)
        assert len(set(losses)) > 1


async def test_a_loss_that_is_proven_has_an_interval_that_leaves_out_0() -> None:
    """Ten pairs that lose 0.1 to 0.6 prove it by relabelling; bets alone would not leave 0 out."""
    run = await finished_run(lambda world: fake_services(world, classifiers=Milder(world)))
    by_bets = 0
    for each in run.findings():
        loss = confirmed(each).loss
        assert each.state == "breaks"
        assert each.why == ""
        assert loss.low is not None
        assert loss.low >= 0.01
        by_bets += (mean_loss(PairColumns.fresh([pair.loss for pair in each.pairs]), rng()).low or 0.0) > 0.0
    assert by_bets < len(run.findings())


def rng() -> np.random.Generator:
    """Bets on so few pairs draw nothing."""
    return np.random.default_rng(0)


async def test_a_run_in_progress_has_suspicions_and_states_no_test() -> None:
    run = await finished_run()
    under_way = run.findings(state="in_progress")
    assert {each.state for each in under_way} == {"suspected"}
    assert {each.confirmed for each in under_way} == {None}
    assert all("not yet tested" in each.sentence for each in under_way)


async def test_a_suspicion_shows_one_pair_of_each_image_of_the_screen() -> None:
    run = await run_after_screen(confirm=False)
    items = {item.id: item for item in run.items}
    found = run.findings()
    assert {(each.state, each.of, len(each.pairs)) for each in found} == {("suspected", 20, 20)}
    controls = {items[pair.control or ""].kind for each in found for pair in each.pairs}
    assert controls == {"placebo"}
    assert all(each.confirmed is None for each in found)


async def test_two_images_are_too_few_for_a_suspicion() -> None:
    run = await run_after_screen(per_class=2, max_edits_per_image=3)
    assert run.findings() == []
    three = await run_after_screen(per_class=3, max_edits_per_image=3)
    # Three images in agreement leave an interval wide enough to hold next to no loss.
    assert {each.state for each in three.findings()} <= {"suspected"}


async def test_a_pair_that_failed_is_dropped_by_its_state() -> None:
    run = await run_after_screen()
    stage = run.plan_next()
    assert stage is not None
    edits = [item for item in stage if item.kind == "confirmation" and item.label == "plate"]
    for group in lease_all(run.config, edits[:2]):
        await run.record.failed(group.items[0], BackendUnavailable("the editor is away"))
    await run.work([item for item in stage if item not in edits[:2]])
    while (stage := run.plan_next()) is not None:
        await run.work(stage)
    plate = next(each for each in run.findings() if each.object_class == "plate")
    assert confirmed(plate).dropped == {"failed": 2}
    assert (plate.of, confirmed(plate).planned) == (8, 10)


async def test_a_cancelled_run_tests_the_pairs_that_it_has() -> None:
    run = await run_after_screen()
    stage = run.plan_next()
    assert stage is not None
    await run.work(stage)
    findings = run.findings(state="cancelled")
    # Five pairs of four hypotheses cannot prove any of them, whatever they show.
    assert {each.state for each in findings} == {"cannot-tell"}
    assert {each.of for each in findings} == {5}
    assert all("cannot tell" in each.sentence for each in findings)
    assert all(each.why.startswith("there are too few pairs, 5 of at least 7") for each in findings)


@pytest.mark.parametrize(
    ("high", "confirmed_one", "n", "suspect", "state"),
    [
        (0.9, True, 9, True, "breaks"),
        (0.09, False, 9, True, "holds"),
        (0.10, False, 9, True, "cannot-tell"),
        (None, False, 0, True, "suspected"),
        (None, False, 0, False, "cannot-tell"),
    ],
)
def test_the_state_follows_from_test_and_interval(
    high: float | None, confirmed_one: bool, n: int, suspect: bool, state: str
) -> None:
    p = 0.001 if confirmed_one else 1.0
    test = ConfirmationTest(n, 0.4, stopped=False, p=p, p_adjusted=p)
    known = high is not None
    loss = Estimate(estimate=0.0 if known else None, low=-0.1 if known else None, high=high, n=n)
    assert state_of(test, loss, suspect=suspect) == state
