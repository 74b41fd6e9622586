"""The stages after the screen: what is chosen, which images show it, and how far the budget goes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.perturber import PerturbRequest, PerturbResponse
from counterpose_core.contract.runs import Item
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.errors import BackendUnavailable
from counterpose_gateway.methods.stress_test.columns import columns_of
from counterpose_gateway.methods.stress_test.confirm.stages import next_stage
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.findings import under_test
from counterpose_gateway.methods.stress_test.summary.screen import SeenItems
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.services.ports import Services
from fakes.confirmed_runs import StagedRun, finished_run, run_after_screen, staged_run
from fakes.ports import FakeClassifiers, FakePerturber, FakeScorer, fake_services
from fakes.recorder import lease_all
from fakes.world import FakeWorld

SNOW = ("on the grass", "in the snow")


def instruction(item: Item) -> Instruction:
    assert item.instruction is not None
    return item.instruction


def confirmations(run: StagedRun) -> list[Item]:
    return run.of_kind("confirmation", later=True)


@pytest.fixture(scope="module")
def run() -> StagedRun:
    """The default run, at its end; only to be read."""
    return asyncio.run(finished_run())


def test_the_change_that_hurts_is_made_on_fresh_images_alone(run: StagedRun) -> None:
    edits = confirmations(run)
    edited = {item.item_group for item in run.items if item.kind == "edit"}
    assert {item.item_group for item in edits} & edited == set()
    asked = [instruction(item) for item in edits]
    assert {(each.wording.removed, each.wording.added) for each in asked if each.wording} == {SNOW}
    assert {tuple(each.classifiers) for each in asked} == {("leaning",)}
    assert all("in the snow" in item.result.edited_caption for item in edits if item.result)  # type: ignore[operator]


def test_every_fresh_image_has_one_placebo_and_no_other_control(run: StagedRun) -> None:
    later = [item for item in run.items if item.stage > 1]
    assert Counter(item.kind for item in later) == {"confirmation": 40, "placebo": 40}
    assert len({item.item_group for item in later}) == 40


def test_four_pairs_come_first_and_the_rest_follows(run: StagedRun) -> None:
    # Nearly every edit is kept, so one image more than four is taken.
    assert Counter(item.label for item in confirmations(run) if item.stage == 2) == {
        "plate": 5, "sled": 5, "boat": 5, "kite": 5,
    }  # fmt: skip
    assert len(run.stages) == 3
    assert run.plan_next() is None


async def test_a_stage_is_the_same_however_often_it_is_planned() -> None:
    run = await run_after_screen()
    first = run.plan_next()
    run.stages.pop()
    assert first
    assert run.plan_next() == first


async def test_a_stage_is_planned_alike_from_models_and_from_documents() -> None:
    run = await run_after_screen()
    items = run.items
    from_models = next_stage(run.run, items)
    from_documents = next_stage(run.run, map(RecordedItem.of, items))
    assert from_models is not None
    assert from_documents is not None
    assert list(from_models.items) == list(from_documents.items)


def test_the_share_of_pairs_is_that_of_edits_at_the_gate_with_a_placebo(run: StagedRun) -> None:
    dropped = [
        item.model_copy(update={"state": "filtered", "reason": "gate-directional"})
        if number % 5 == 0 and item.kind in ("edit", "confirmation", "placebo")
        else item
        for number, item in enumerate(run.items)
    ]
    placebos = {_place(item) for item in dropped if item.kind == "placebo" and item.state == "done"}
    edits = [item for item in dropped if item.kind in ("edit", "confirmation")]
    at_gate = [item for item in edits if item.state == "done" or (item.reason or "").startswith("gate-")]
    whole = sum(item.state == "done" and _place(item) in placebos for item in at_gate)
    assert 0 < whole < len(at_gate)
    found = SeenItems.of(dropped, run.config).share_of_pairs("background")
    assert found == (whole + 1) / (len(at_gate) + 2)


def _place(item: Item) -> tuple[str, int | None]:
    return item.item_group, None if item.instruction is None else item.instruction.draw


async def test_no_change_that_hurts_ends_the_run_after_its_screen() -> None:
    run = await finished_run(classifiers=["steady"])
    assert len(run.stages) == 1
    summary = run.summary()
    assert summary.findings == []
    assert summary.confirmation is not None
    assert "no change cost a classifier 0.05 or more" in str(summary.confirmation.reason)


async def test_a_run_that_does_not_confirm_has_no_later_stage() -> None:
    run = await finished_run(confirm=False)
    assert (len(run.stages), run.summary().confirmation) == (1, None)


class TwoLeaning(FakeClassifiers):
    """``steady`` is misled by snow as well, though less."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        known = await super().classify(request)
        if request.classifier != "steady":
            return known
        outcomes: list[Outcome[Prediction]] = [
            Outcome(value=self.half(request, image)) for image in request.images
        ]
        return known.model_copy(update={"outcomes": outcomes})

    def half(self, request: ClassifyRequest, image: str) -> Prediction:
        leaning = self.predict(request.model_copy(update={"classifier": "leaning"}), image)
        right = self.predict(request, image)
        mean = [
            (one + other) / 2 for one, other in zip(leaning.probabilities, right.probabilities, strict=True)
        ]
        return Prediction(probabilities=mean, top=right.top)


async def test_classifiers_that_lose_under_one_change_share_its_images() -> None:
    run = await finished_run(lambda world: fake_services(world, classifiers=TwoLeaning(world)))
    assert {tuple(instruction(item).classifiers) for item in confirmations(run)} == {("leaning", "steady")}
    assert len(confirmations(run)) == 40
    findings = run.findings()
    assert {finding.classifier for finding in findings} == {"leaning", "steady"}
    assert {finding.confirmed.family_size for finding in findings if finding.confirmed} == {8}


class SnowIsNoBother(FakeClassifiers):
    """Loses its class in snow once and never again: what the screen saw was an accident."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.screening = True

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        name = "leaning" if self.screening and request.classifier == "leaning" else "steady"
        return super().predict(request.model_copy(update={"classifier": name}), image)


async def test_a_hopeless_change_gets_no_more_than_the_look() -> None:
    classifiers: list[SnowIsNoBother] = []

    def ports(world: FakeWorld) -> Services:
        classifiers.append(SnowIsNoBother(world))
        return fake_services(world, classifiers=classifiers[0])

    run = await run_after_screen(ports)
    classifiers[0].screening = False
    stage = run.plan_next()
    assert stage is not None
    await run.work(stage)
    assert run.plan_next() is None
    findings = run.findings()
    assert {finding.state for finding in findings} == {"cannot-tell"}
    confirmed = [finding.confirmed for finding in findings if finding.confirmed]
    assert all(each.stopped and each.p == each.p_adjusted == 1.0 for each in confirmed)
    assert {each.loss.n for each in confirmed} == {5}


async def test_the_budget_is_never_passed() -> None:
    run = await finished_run(per_class=20, max_edits_per_image=1, edit_types=["background"])
    plan = run.config.confirmation
    assert plan is not None
    later = sum(map(len, run.stages[1:]))
    assert later <= plan.budget
    assert len(run.items) <= 80 * 3


async def test_changes_take_turns_where_the_budget_is_short() -> None:
    run = await run_after_screen()
    assert run.config.confirmation is not None
    short = run.config.confirmation.model_copy(update={"budget": 13})
    run.config = run.config.model_copy(update={"confirmation": short})
    stage = run.plan_next()
    assert stage is not None
    counts = Counter(item.label for item in stage if item.kind == "confirmation")
    assert (len(stage), sorted(counts.values())) == (12, [1, 1, 2, 2])


class NoSnowOnFreshImages(FakeScorer):
    """Lets no edit of a confirmation through: they alone come without any other edit of their image."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.open = True

    def measure(self, item: ScoreItem) -> EditScores:
        scores = super().measure(item)
        bad = not self.open and "snow" in item.edited_caption
        return scores.model_copy(update={"direction": 0.0}) if bad else scores


async def test_changes_of_which_no_edit_is_kept_are_not_tested() -> None:
    scorers: list[NoSnowOnFreshImages] = []

    def ports(world: FakeWorld) -> Services:
        scorers.append(NoSnowOnFreshImages(world))
        return fake_services(world, scorer=scorers[0])

    run = await run_after_screen(ports)
    scorers[0].open = False
    stage = run.plan_next()
    assert stage is not None
    await run.work(stage)
    while (stage := run.plan_next()) is not None:
        await run.work(stage)
    findings = run.findings()
    assert {finding.state for finding in findings} == {"suspected"}
    confirmed = findings[0].confirmed
    assert confirmed is not None
    assert confirmed.dropped == {"gate-direction": confirmed.planned}
    assert (confirmed.loss.estimate, confirmed.p) == (None, 1.0)
    assert "not yet tested" in findings[0].sentence


class NoPlacebos(FakePerturber):
    """Has no other wording for any caption of the images that are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.mute = False

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        answer = await super().perturb(request)
        kinds = [item.perturbation_type for item in request.items]
        outcomes = [
            Outcome(value=outcome.unwrap().model_copy(update={"edits": []}))
            if self.mute and kind == "placebo"
            else outcome
            for kind, outcome in zip(kinds, answer.outcomes, strict=True)
        ]
        return answer.model_copy(update={"outcomes": outcomes})


async def test_without_a_placebo_no_pair_is_whole() -> None:
    perturbers: list[NoPlacebos] = []

    def ports(world: FakeWorld) -> Services:
        perturbers.append(NoPlacebos())
        return fake_services(world, perturber=perturbers[0])

    run = await run_after_screen(ports)
    perturbers[0].mute = True
    while (stage := run.plan_next()) is not None:
        await run.work(stage)
    findings = run.findings()
    assert {finding.state for finding in findings} == {"suspected"}
    assert findings[0].confirmed is not None
    assert findings[0].confirmed.dropped == {"placebo-no-edit": findings[0].confirmed.planned}


async def test_a_run_whose_screen_kept_nothing_ends_there() -> None:
    class NothingPasses(FakeScorer):
        def measure(self, item: ScoreItem) -> EditScores:
            return super().measure(item).model_copy(update={"direction": 0.0, "image_image": 0.0})

    run = await finished_run(lambda world: fake_services(world, scorer=NothingPasses(world)))
    assert (len(run.stages), run.findings()) == (1, [])


async def test_a_class_alone_is_confirmed_as_well() -> None:
    run = await finished_run(sources=lambda world: world.sources(24, ("sled",)))
    findings = run.findings()
    assert [(finding.state, finding.object_class, finding.of) for finding in findings] == [
        ("breaks", "sled", 12)
    ]


async def test_a_caption_that_failed_takes_its_image_out() -> None:
    run = await staged_run()
    captions = [item for item in run.stages[0] if item.kind == "caption" and item.label == "plate"]
    await run.work([item for item in run.stages[0] if item not in captions[:3]])
    for group in lease_all(run.config, captions[:3]):
        await run.record.failed(group.items[0], BackendUnavailable("the captioner is away"))
    stage = run.plan_next()
    assert stage is not None
    assert {item.item_group for item in captions[:3]} & {item.item_group for item in stage} == set()


async def test_captions_that_users_bring_need_no_captioner() -> None:
    def captioned(world: FakeWorld) -> list[Source]:
        return [
            world.source(label, number, caption=f"a red {label} on the grass near a dog")
            for label in ("plate", "sled")
            for number in range(20)
        ]

    run = await finished_run(sources=captioned)
    assert run.services.captioner.calls["caption"] == 0  # type: ignore[attr-defined]
    assert len(run.stages) == 3


async def test_images_to_which_the_words_do_not_apply_are_not_edited() -> None:
    def half_in_the_wood(world: FakeWorld) -> list[Source]:
        return [
            world.source("sled", number, caption=None if number % 2 else "a red sled in the wood")
            for number in range(40)
        ]

    run = await finished_run(sources=half_in_the_wood)
    edits = confirmations(run)
    assert edits
    assert all(item.state == "done" for item in edits)
    assert all(item.result and "on the grass" in item.result.caption for item in edits)


def test_confirmations_enter_no_figure_of_the_screen(run: StagedRun) -> None:
    whole, screen = run.summary(), summarize(run.run, [item for item in run.items if item.stage == 1])
    apart = {"findings", "verdict", "verdicts", "confirmation", "counts", "cost", "service_seconds"}
    assert screen.model_dump(exclude=apart) == whole.model_dump(exclude=apart)
    assert screen.counts["planned"] == whole.counts["planned"] - 80


def test_evidence_is_of_the_screen_alone(run: StagedRun) -> None:
    alone = Evidence.of([item for item in run.items if item.stage == 1], "leaning")
    whole = Evidence.of(run.items, "leaning")
    assert [whole.edits.ids(), whole.placebos.ids()] == [alone.edits.ids(), alone.placebos.ids()]
    assert len(alone.placebos) == 40


async def test_the_share_that_has_ended_never_falls_from_phase_to_phase() -> None:
    run = await staged_run(per_class=30)
    shares, planned = list[float](), list[int]()
    stage: list[PlannedItem] | None = run.stages[0]
    while stage is not None:
        for share in (0.0, 0.5, 1.0):
            ended = run.run.request_counts.total - len(stage) + int(share * len(stage))
            shares.append(ended / STRESS_TEST.most_items(run.run))
        planned.append(run.run.request_counts.total)
        await run.work(stage)
        stage = run.plan_next()
    assert len(planned) == 3
    assert planned[0] < planned[1] < planned[2]
    assert shares == sorted(shares)
    assert shares[2] < 1.0
    assert shares[-1] == 1.0


async def test_what_a_run_tests_is_told_while_it_goes_on_and_by_no_page_afterwards() -> None:
    run = await staged_run(per_class=30)

    def told(**changes: object) -> list[str]:
        now = run.run.model_copy(update={"state": "in_progress", **changes})
        columns = columns_of(run.items, {})
        return [one.sentence for one in under_test(now, columns, run.config)]

    assert told() == []
    await run.work(run.stages[0])
    assert run.plan_next() is not None
    sentence, *_ = told()
    assert sentence.startswith("leaning ")
    assert "not yet tested" in sentence
    assert told(state="completed") == []
