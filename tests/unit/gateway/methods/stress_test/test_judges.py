"""Judges of edits: who is asked, the rule by which edits are kept, and what is recorded of their verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.judges import (
    AskedJudge,
    Calibration,
    JudgeItem,
    Judgement,
    JudgeRequest,
    JudgeResponse,
    Rule,
    Verdict,
)
from counterpose_core.contract.runs import Item
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.contract.stress_test_thresholds import GateThresholds, Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.errors import BackendUnavailable, InvalidRequest, UnknownModel
from counterpose_core.types import JudgeName
from counterpose_gateway.methods.stress_test.columns import columns_of
from counterpose_gateway.methods.stress_test.screen.judges import (
    DROPPED,
    UNDECIDED,
    references_of,
    require_judges,
    rule_again,
)
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.judges import summarize_judges
from counterpose_gateway.methods.stress_test.thresholds import JudgingAgain
from counterpose_gateway.records.source_table import SourceTable
from fakes.ports import FakeScorer, fake_services
from fakes.recorder import FakeRecorder
from fakes.runs import planned, states, stress_test, stress_test_request
from fakes.world import FakeWorld, fake_suite
from unit.gateway.methods.stress_test.test_preservation import items_of

ALL: list[JudgeName] = ["clip", "encoder", "judge"]


class Panel(FakeScorer):
    """Says of each edit what its judges are told to say; CLIP refuses every third image."""

    def __init__(self, world: FakeWorld, says: Mapping[str, Verdict], *, strict: bool = False) -> None:
        super().__init__(world)
        self.says, self.strict = says, strict
        self.asked: list[JudgeRequest] = []

    def measure(self, item: ScoreItem) -> EditScores:
        """Too low a direction for every third image."""
        found = super().measure(item)
        low = self.strict and int(hashlib.sha256(item.edited_caption.encode()).hexdigest(), 16) % 3 == 0
        return found.model_copy(update={"direction": 0.0}) if low else found

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Also keeps what was asked."""
        self.asked.append(request)
        return await super().judge(request)

    def judged(self, judge: AskedJudge, item: JudgeItem) -> Judgement:
        """The verdict of this judge."""
        return Judgement(verdict=self.says[judge], detail="so" if self.says[judge] != "yes" else "")


class Divided(Panel):
    """Its second judge calls every other image wrong."""

    def judged(self, judge: AskedJudge, item: JudgeItem) -> Judgement:
        """By the image."""
        wrong = judge == "judge" and int(hashlib.sha256(item.edited_caption.encode()).hexdigest(), 16) % 2
        return Judgement(verdict="no" if wrong else "yes")


async def judged_run(
    scorer: FakeScorer, world: FakeWorld, **changes: object
) -> tuple[StressTestConfig, list[Item], FakeRecorder]:
    sources = [world.source("sled", number) for number in range(3)]
    sources += [world.source("boat", number) for number in range(3)]
    asked = {"confirm": False, **changes}
    services = fake_services(world, scorer=scorer)
    config, _ = await planned(sources, services, redraw=None, **asked)
    plan, record = await stress_test(world, sources, services, None, **asked)
    return config, items_of(plan, record), record


async def test_clip_alone_asks_nobody_and_records_no_verdict() -> None:
    world = FakeWorld()
    scorer = Panel(world, {}, strict=True)
    config, items, record = await judged_run(scorer, world)
    assert not scorer.asked
    assert states(record)["gate-direction"]
    assert all(not item.result.judgements for item in items if item.result)
    assert not {"references", "calibrations", "judged_by"} & config.model_dump().keys()
    assert summarize_judges(columns_of(items), config, LanceEstimator(3)) is None


async def test_each_judge_s_verdict_is_recorded_also_where_clip_refuses() -> None:
    world = FakeWorld()
    scorer = Panel(world, {"encoder": "yes", "judge": "yes"}, strict=True)
    config, items, record = await judged_run(scorer, world, judges=ALL, thresholds={"keep": 2})
    assert not {"gate-direction", DROPPED} & states(record).keys()
    edits = [item.result for item in items if item.kind == "edit" and item.result]
    assert all(set(each.judgements) == set(ALL) for each in edits)
    assert {each.judgements["clip"].verdict for each in edits} == {"yes", "no"}
    assert {each.judgements["clip"].detail for each in edits} == {"", "gate-direction"}
    # The control is what the editor does by itself, and stays.
    controls = [item for item in items if item.kind == "reconstruction"]
    assert {item.state for item in controls} == {"done"}
    assert all(item.result and not item.result.judgements for item in controls)
    assert all(result.predictions for result in edits)
    # The first calls look whether a judge can answer at all.
    asked = [item for request in scorer.asked for item in request.items if item.original != item.edited]
    assert {(item.change, item.caption == item.edited_caption) for item in asked} == {
        (True, False),
        (False, False),
    }
    for request in scorer.asked:
        tried = request.items[0].original == request.items[0].edited
        wanted = set(config.references) if request.judge == "encoder" else set()
        # What is tried before a run waits for few images.
        assert set(request.references) == (wanted & {request.items[0].label} if tried else wanted)
    assert config.references == {
        label: [world.source(label, number).image for number in order]
        for label, order in _orders(config).items()
    }


def _orders(config: StressTestConfig) -> dict[str, list[int]]:
    """The numbers of the images that stand for each class."""
    world = FakeWorld()
    numbers = {world.source(label, number).image: number for label in ("sled", "boat") for number in range(3)}
    orders = {label: [numbers[image] for image in images] for label, images in config.references.items()}
    assert {label: sorted(order) for label, order in orders.items()} == {"sled": [0, 1, 2], "boat": [0, 1, 2]}
    return orders


async def test_an_edit_that_too_few_call_right_is_dropped_with_what_each_says() -> None:
    world = FakeWorld()
    _, items, record = await judged_run(
        Panel(world, {"encoder": "no", "judge": "no"}), world, judges=ALL, thresholds={"keep": 2}
    )
    reasons = {(item.kind, item.reason) for item in items}
    assert reasons == {("reconstruction", None), ("placebo", DROPPED), ("edit", DROPPED)}
    dropped = next(item for item in items if item.reason == DROPPED)
    assert record.outcomes[dropped.id].detail == "clip says yes; encoder says no (so); judge says no (so)"
    assert dropped.result is not None
    assert not dropped.result.predictions


async def test_an_edit_that_hangs_on_a_judge_without_an_answer_is_neither_kept_nor_called_wrong() -> None:
    world = FakeWorld()
    config, items, record = await judged_run(Panel(world, {"judge": "late"}), world, judges=["clip", "judge"])
    assert {item.reason for item in items if item.kind == "edit"} == {UNDECIDED}
    found = summarize_judges(columns_of(items), config, LanceEstimator(3))
    assert found is not None
    assert found.rows["judge"].verdicts == {"late": found.judged}
    assert found.rows["judge"].yes.n == 0
    yields = LanceEstimator(3).yields(columns_of(items))
    assert (yields["undecided"].estimate, yields["judges"].estimate) == (0.0, 1.0)
    assert states(record)[UNDECIDED]


async def test_a_judge_that_is_down_fails_its_images_and_no_control() -> None:
    class Down(Panel):
        async def judge(self, request: JudgeRequest) -> JudgeResponse:
            """Answers while the run is planned."""
            if request.items[0].edited == request.items[0].original:
                return await super().judge(request)
            raise BackendUnavailable("the judge is down")

    world = FakeWorld()
    _, items, record = await judged_run(Down(world, {"judge": "yes"}), world, judges=["clip", "judge"])
    ended = {(item.kind, item.state) for item in items}
    assert ended == {("reconstruction", "done"), ("placebo", "failed"), ("edit", "failed")}
    assert {type(each.error) for each in record.outcomes.values() if each.error} == {BackendUnavailable}


async def test_a_judge_that_does_not_see_is_refused_before_a_run() -> None:
    class Blind(Panel):
        async def judge(self, request: JudgeRequest) -> JudgeResponse:
            """As a chat without vision."""
            raise UnknownModel("the judge 'vlm' does not see images; choose a model with vision")

    world = FakeWorld()
    with pytest.raises(UnknownModel, match="does not see images"):
        await judged_run(Blind(world, {}), world, judges=["clip", "judge"])


def test_a_judge_that_the_suite_lacks_and_judges_of_nothing_are_refused_by_name() -> None:
    suite = fake_suite().model_copy(update={"judge": None})
    with pytest.raises(InvalidRequest, match="the suite 'miniature' has no judge 'judge'"):
        require_judges(stress_test_request(judges=["clip", "judge"]), suite)
    require_judges(stress_test_request(judges=["clip", "encoder"]), suite)
    operations = {"max_edits_per_image": 0, "transforms": {"operations": ["rotation"]}}
    with pytest.raises(InvalidRequest, match="no image is edited by its caption; leave judges out"):
        require_judges(stress_test_request(judges=["clip", "encoder"], **operations), fake_suite())


def test_the_encoder_compares_so_many_images_of_each_class_and_no_more_classes_than_that() -> None:
    world = FakeWorld()
    rule = Rule.of(["clip", "encoder"])
    many = SourceTable.of([world.source("sled", number) for number in range(20)])
    assert len(references_of(rule, many)["sled"]) == 8
    assert references_of(Rule.of(["clip", "judge"]), many) == {}
    wide = SourceTable.of([world.source(f"class {number}", 0) for number in range(257)])
    with pytest.raises(InvalidRequest, match="compares at most 256 classes, and these images have 257"):
        references_of(rule, wide)


async def test_the_summary_lists_where_judges_disagree_and_how_far_each_can_be_believed() -> None:
    world = FakeWorld()
    config, items, _ = await judged_run(
        Divided(world, {"encoder": "yes"}, strict=True), world, judges=ALL, thresholds={"keep": 2}
    )
    known = Calibration.of([("yes", True)] * 60 + [("yes", False)] * 40, "ratings")
    config = config.model_copy(update={"calibrations": {"judge": known}})
    found = summarize_judges(columns_of(items), config, LanceEstimator(3))
    assert found is not None
    edits = {item.id: item for item in items if item.kind == "edit" and item.result}
    differ = [
        name
        for name, item in edits.items()
        if item.result and {"yes", "no"} <= {each.verdict for each in item.result.judgements.values()}
    ]
    assert [each.item for each in found.disagreements] == differ
    assert 0 < len(differ) < len(edits) == found.judged == found.disagreed.n
    assert found.disagreed.estimate == pytest.approx(len(differ) / len(edits))
    for each in found.disagreements:
        assert each.kept == (edits[each.item].state == "done")
    assert found.unreliable == ["judge"]
    rule = Rule.of(ALL, 2, "judge")
    shadowed = summarize_judges(columns_of(items), config, LanceEstimator(3), rule)
    assert shadowed is not None
    assert (shadowed.unreliable, shadowed.rows["judge"].votes) == ([], False)
    said = "\n".join(found.lines)
    assert "not calibrated" in said.split("judge:")[0]
    independent = "against ratings (intervals take edits as independent, also those of one source)"
    assert f"{independent}; more than a tenth of its votes are wrong: do not believe it" in said


async def test_clip_is_calibrated_at_the_thresholds_of_its_calibration_alone() -> None:
    world = FakeWorld()
    config, items, _ = await judged_run(Panel(world, {"judge": "yes"}), world, judges=["clip", "judge"])
    counts = [("yes", True)] * 9 + [("no", False)] * 9

    def belief(made_by: GateThresholds | None, again: GateThresholds | None = None) -> tuple[str, str]:
        known = {
            "clip": Calibration.of(counts, "ratings", made_by),
            "judge": Calibration.of(counts, "ratings"),
        }
        used = config.model_copy(update={"calibrations": known})
        found = summarize_judges(columns_of(items), used, LanceEstimator(3), gate=again)
        assert found is not None
        assert found.rows["judge"].belief.startswith("precision 1.000")
        return found.rows["clip"].belief, found.lines[1]

    other = config.gate.model_copy(update={"direction": 0.3})
    assert belief(config.gate)[0].startswith("precision 1.000")
    assert belief(other, other)[0].startswith("precision 1.000")
    for row, line in (belief(other), belief(config.gate, other), belief(None)):
        assert row == "not calibrated at these thresholds"
        assert line.endswith("; not calibrated at these thresholds.")


async def test_a_run_is_judged_again_by_another_rule_without_an_image_or_a_judge() -> None:
    world = FakeWorld()
    scorer = Divided(world, {"encoder": "yes"}, strict=True)
    config, items, _ = await judged_run(scorer, world, judges=ALL, thresholds={"keep": 2})
    asked = len(scorer.asked)
    own = JudgingAgain(config, Thresholds())
    assert list(own.items(items)) == items

    strict = JudgingAgain(config, Thresholds(keep=3))
    again = {item.id: item for item in strict.items(items)}
    edits = [item for item in items if item.kind == "edit" and item.result]
    for item in edits:
        assert item.result is not None
        unanimous = all(each.verdict == "yes" for each in item.result.judgements.values())
        assert (again[item.id].state == "done") == unanimous
        assert again[item.id].reason == (None if unanimous else DROPPED)
    told = strict.told()
    assert (told.keep, told.rule) == (3, "3 of 3 say yes (clip, encoder, judge)")
    assert "Judged again by 3 of 3 say yes" in str(told)

    # What the run dropped has no answers: it cannot be kept afterwards.
    loose = JudgingAgain(config, Thresholds(keep=1))
    list(loose.items(items))
    dropped = [item for item in items if item.reason == DROPPED]
    assert dropped
    assert loose.told().left_out == {"not-classified": len(dropped)}

    # Without one that lies, the others decide.
    alone = JudgingAgain(config, Thresholds(keep=1, without="judge"))
    assert str(alone.rule) == "1 of 2 say yes (clip, encoder, judge without a vote)"
    assert len(scorer.asked) == asked
    with pytest.raises(InvalidRequest, match="3 of the judges are to say yes, and only 2"):
        JudgingAgain(config, Thresholds(keep=3, without="judge"))


@pytest.mark.parametrize(
    ("chosen", "pointer"),
    [(Thresholds(keep=3), "/keep"), (Thresholds(without="encoder"), "/without")],
)
def test_a_choice_that_does_not_fit_a_run_is_pointed_at(chosen: Thresholds, pointer: str) -> None:
    request = stress_test_request(judges=["clip", "judge"])
    with pytest.raises(InvalidRequest) as refused:
        rule_again(request, chosen)
    assert refused.value.pointer == pointer
    wrong = request.model_dump() | {"thresholds": chosen.given()}
    with pytest.raises(InvalidRequest, match=f"^thresholds.{pointer[1:]}: "):
        checked(StressTestCreate, wrong)


async def test_edits_that_all_call_wrong_are_no_disagreement() -> None:
    world = FakeWorld()
    scorer = Panel(world, {"encoder": "no", "judge": "no"}, strict=True)
    config, items, _ = await judged_run(scorer, world, judges=ALL)
    found = summarize_judges(columns_of(items), config, LanceEstimator(3))
    assert found is not None
    split = [each for each in found.disagreements if each.verdicts["clip"] == "yes"]
    assert 0 < len(split) == len(found.disagreements) < found.judged


async def test_an_image_that_judges_never_saw_is_left_out() -> None:
    world = FakeWorld()
    config, items, _ = await judged_run(Panel(world, {"judge": "no"}), world, judges=["clip", "judge"])
    # By these thresholds another strength gets furthest, and fails.
    judging = JudgingAgain(config, Thresholds(image_image=0.85, image_text=0.9))
    edits = [item for item in judging.items(items) if item.kind == "edit"]
    assert not edits
    assert judging.told().left_out["not-classified"] >= sum(item.kind == "edit" for item in items)


async def test_other_thresholds_of_clip_change_its_vote_alone() -> None:
    world = FakeWorld()
    scorer = Panel(world, {"encoder": "no", "judge": "yes"})
    config, items, _ = await judged_run(scorer, world, judges=ALL, thresholds={"keep": 2})
    judging = JudgingAgain(config, Thresholds(direction=0.99))
    again = [item for item in judging.items(items) if item.kind == "edit" and item.result]
    assert {item.reason for item in again} == {DROPPED}
    assert {item.result.judgements["clip"].detail for item in again if item.result} == {"gate-direction"}
    assert {item.result.judgements["judge"].verdict for item in again if item.result} == {"yes"}
