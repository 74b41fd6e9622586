"""Whether only the asked change changed: measured where it is wanted, summed up, and never a filter."""

from __future__ import annotations

import pytest

from counterpose_core.contract.preservation import (
    Fault,
    Preservation,
    PreservationItem,
    PreservationRequest,
    PreservationResponse,
    PreservationRow,
    PreservationSummary,
)
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.errors import BackendUnavailable, InvalidRequest, LeaseLost
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.columns import columns_of
from counterpose_gateway.methods.stress_test.export import _of_preservation
from counterpose_gateway.methods.stress_test.report.trust import _preserved
from counterpose_gateway.methods.stress_test.screen import preservation
from counterpose_gateway.methods.stress_test.screen.preservation import PRESERVATION
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.preservation import summarize_preservation
from counterpose_gateway.methods.stress_test.thresholds import JudgingAgain
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.services.ports import Services
from fakes.log_listener import listening
from fakes.ports import FakeScorer, fake_services
from fakes.recorder import FakeRecorder
from fakes.runs import planned, states, stress_test
from fakes.world import FakeWorld


class Mover(FakeScorer):
    """Calls every image moved, and every one without a visible change."""

    async def preservation(self, request: PreservationRequest) -> PreservationResponse:
        """Also counts how many images were asked about."""
        self.calls["images"] += len(request.items)
        return await super().preservation(request)

    def preserved(self, item: PreservationItem) -> Preservation:
        """The faults of the class."""
        faults: list[Fault] = ["moved", "leaked"] if item.control else ["moved", "ignored"]
        return super().preserved(item).model_copy(update={"faults": faults})


class Absent(FakeScorer):
    """Answers nothing on preservation."""

    error: Exception = BackendUnavailable("the scorer is down")

    async def preservation(self, request: PreservationRequest) -> PreservationResponse:
        """Fails."""
        raise self.error


async def run(
    services: Services, world: FakeWorld, **changes: object
) -> tuple[list[PlannedItem], FakeRecorder]:
    sources = [world.source("sled", number) for number in range(4)]
    asked = {"preservation": "all", "confirm": False, **changes}
    return await stress_test(world, sources, services, None, **asked)


def items_of(plan: list[PlannedItem], record: FakeRecorder) -> list[Item]:
    """The items as the gateway shows them."""
    return [
        Item(
            id=f"item-{item.ordinal}", ordinal=item.ordinal, kind=item.kind, item_group=item.item_group,
            source_image=item.source_image, label=item.label, edit_type=item.edit_type, slot=item.slot,
            state=recorded.state, reason=recorded.reason, result=recorded.result,
        )
        for item in plan
        for recorded in [record.outcomes[f"item-{item.ordinal}"]]
    ]  # fmt: skip


@pytest.mark.parametrize(("wanted", "calls"), [("all", 4), ("served", 0), ("none", 0)])
async def test_it_is_measured_where_it_is_wanted_in_one_call_a_source(wanted: str, calls: int) -> None:
    world = FakeWorld()
    scorer = FakeScorer(world)
    _, record = await run(fake_services(world, scorer=scorer), world, preservation=wanted)
    assert scorer.calls["preservation"] == calls
    kept = [each.result for each in record.outcomes.values() if each.state == "done" and each.result]
    assert {result.preservation is not None for result in kept} == {bool(calls)}


async def test_a_fault_is_recorded_and_no_image_is_dropped_for_it() -> None:
    world = FakeWorld()
    scorer = Mover(world)
    plan, record = await run(fake_services(world, scorer=scorer), world)
    other = FakeWorld()
    _, without = await run(fake_services(other), other, preservation="none")
    assert states(record) == states(without)
    items = items_of(plan, record)
    kept = [(item.kind, item.result.preservation) for item in items if item.result]
    faults = {kind: measured.faults for kind, measured in kept if measured is not None}
    # A placebo keeps the meaning: nothing visible has to change.
    assert faults == {
        "reconstruction": ["moved", "leaked"], "edit": ["moved", "ignored"], "placebo": ["moved"],
    }  # fmt: skip
    assert scorer.calls["images"] == sum(item.state == "done" for item in items)


async def test_rows_have_shares_with_intervals_and_examples_of_each_fault() -> None:
    world = FakeWorld()
    plan, record = await run(fake_services(world, scorer=Mover(world)), world)
    items = items_of(plan, record)
    found = summarize_preservation(columns_of(items), LanceEstimator(3))
    assert found is not None
    assert set(found.rows) == {"control", "placebo", "edit"}
    edits = found.rows["edit"]
    assert (edits.measured, edits.left_out) == (sum(i.kind == "edit" and i.state == "done" for i in items), 0)
    told = {name: (share.estimate, share.n) for name, share in edits.shares.items()}
    assert told == {"reshaped": (0.0, 20), "moved": (1.0, 20), "scaled": (0.0, 20), "ignored": (1.0, 20)}
    assert edits.any_fault.estimate == 1.0
    assert set(edits.example_items) == {"moved", "ignored"}
    assert "leaked" in found.rows["control"].example_items
    assert "leaked" not in edits.shares
    assert "ignored" not in found.rows["placebo"].shares
    assert found.lines[0].startswith("100.0 % (95 % interval ")
    assert found.lines[0].endswith(" of the controls are shifted by more than 1 % of a side (n=4).")


class ByTurns(FakeScorer):
    """Moves an image, ignores the change in the next, and does the third right."""

    def preserved(self, item: PreservationItem) -> Preservation:
        """One of the three."""
        self.calls["pairs"] += 1
        turns: list[list[Fault]] = [["moved"], ["ignored"], []]
        faults = turns[self.calls["pairs"] % 3]
        return super().preserved(item).model_copy(update={"faults": faults})


class Edgeless(ByTurns):
    """Cannot tell a movement of the images that it does not call moved."""

    def preserved(self, item: PreservationItem) -> Preservation:
        """Told by turns."""
        measured = super().preserved(item)
        unmeasured: list[Fault] = [] if measured.faults == ["moved"] else ["moved", "scaled"]
        return measured.model_copy(update={"unmeasured": unmeasured})


def test_an_export_says_nothing_of_a_fault_that_cannot_be_told() -> None:
    record = Preservation(faults=["ignored"], unmeasured=["moved", "scaled"], size_ratio=(1.0, 1.0))
    scores = _of_preservation(record)
    told = [scores[f"preservation {fault}"] for fault in ("reshaped", "moved", "scaled", "ignored")]
    assert told == [0.0, None, None, 1.0]


def test_controls_are_not_in_order_where_no_movement_can_be_told() -> None:
    some = Estimate(estimate=0.0, low=0.0, high=0.1, n=40)
    row = PreservationRow(measured=40, left_out=0, shares={"reshaped": some}, any_fault=some)
    assert _preserved(PreservationSummary(rows={"edit": row})) == (
        "whether images moved cannot be told",
        False,
    )
    row = row.model_copy(update={"shares": {"reshaped": some, "moved": some}})
    assert _preserved(PreservationSummary(rows={"edit": row}))[1]


async def test_images_of_which_a_fault_cannot_be_told_are_in_no_share_of_it() -> None:
    world = FakeWorld()
    plan, record = await run(fake_services(world, scorer=Edgeless(world)), world)
    items = items_of(plan, record)
    found = summarize_preservation(columns_of(items), LanceEstimator(3))
    assert found is not None
    edits = found.rows["edit"]
    kept = [item.result.preservation for item in items if item.kind == "edit" and item.result]
    moved, ignored = (
        sum(each is not None and fault in each.faults for each in kept) for fault in ("moved", "ignored")
    )
    assert (edits.shares["moved"].estimate, edits.shares["moved"].n) == (1.0, moved)
    assert edits.unmeasured == {"moved": len(kept) - moved, "scaled": len(kept) - moved}
    assert edits.shares["ignored"].n == edits.shares["reshaped"].n == len(kept)
    # Of the others nobody knows whether they have any.
    assert (edits.any_fault.estimate, edits.any_fault.n) == (1.0, moved + ignored)
    assert found.answers_lost == {}


async def test_edits_that_moved_are_held_against_those_that_did_not() -> None:
    world = FakeWorld()
    plan, record = await run(fake_services(world, scorer=ByTurns(world)), world)
    items = items_of(plan, record)
    found = summarize_preservation(columns_of(items), LanceEstimator(3))
    assert found is not None
    assert set(found.answers_lost) == {"steady", "leaning"}
    for name, lost in found.answers_lost.items():
        for share, faults in ((lost.moved, ["moved"]), (lost.right, [])):
            made = [
                item.result
                for item in items
                if item.kind == "edit" and item.result is not None and item.result.preservation is not None
                and item.state == "done" and item.result.preservation.faults == faults
            ]  # fmt: skip
            right = [each for each in made if each.original_predictions[name].right]
            wrong = sum(not each.predictions[name].right for each in right)
            assert share.n == len(right)
            assert share.estimate == pytest.approx(wrong / len(right))
    said = [line for line in found.lines if line.startswith("leaning: of right answers, edits that are ")]
    assert len(said) == 1


async def test_where_all_moved_nothing_is_held_against_them() -> None:
    world = FakeWorld()
    plan, record = await run(fake_services(world, scorer=Mover(world)), world)
    found = summarize_preservation(columns_of(items_of(plan, record)), LanceEstimator(3))
    assert found is not None
    assert found.answers_lost == {}


async def test_without_a_measurement_there_is_no_figure() -> None:
    world = FakeWorld()
    plan, record = await run(fake_services(world), world, preservation="none")
    assert summarize_preservation(columns_of(items_of(plan, record)), LanceEstimator(3)) is None


async def test_a_scorer_that_fails_costs_the_record_and_no_image() -> None:
    world = FakeWorld()
    with listening(preservation.__name__) as listener:
        plan, record = await run(fake_services(world, scorer=Absent(world)), world)
    assert "the preservation of" in listener.said
    items = items_of(plan, record)
    assert {item.state for item in items} <= {"done", "filtered"}
    found = [item.result for item in items if item.kind == "edit" and item.result]
    assert found
    assert all(result.preservation is None for result in found)


async def test_a_lost_lease_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Absent, "error", LeaseLost("taken"))
    world = FakeWorld()
    with pytest.raises(LeaseLost):
        await run(fake_services(world, scorer=Absent(world)), world)


async def test_a_refused_fault_drops_edits_and_placebos_and_never_the_control() -> None:
    world = FakeWorld()
    plan, record = await run(
        fake_services(world, scorer=Mover(world)), world, preservation="served", refused_faults=["ignored"]
    )
    items = items_of(plan, record)
    by_kind = {(item.kind, item.state, item.reason) for item in items if item.state != "failed"}
    # A placebo that shows no change is right.
    assert by_kind == {
        ("reconstruction", "done", None), ("placebo", "done", None), ("edit", "filtered", PRESERVATION),
    }  # fmt: skip
    dropped = record.outcomes[next(item.id for item in items if item.kind == "edit")]
    assert dropped.detail == "the run refuses these faults of the image: ignored"
    # Its image, scores and faults can be looked at.
    assert dropped.result is not None
    assert dropped.result.preservation is not None

    _, both = await run(fake_services(world, scorer=Mover(world)), world, refused_faults=["moved", "ignored"])
    assert {each.detail for each in both.outcomes.values() if each.reason == PRESERVATION} == {
        "the run refuses these faults of the image: moved, ignored",
        "the run refuses these faults of the image: moved",
    }  # fmt: skip


async def test_a_fault_that_is_not_refused_drops_nothing_and_what_cannot_be_measured_fails() -> None:
    world = FakeWorld()
    _, kept = await run(fake_services(world, scorer=Mover(world)), world, refused_faults=["scaled"])
    assert PRESERVATION not in states(kept)
    with_absent = fake_services(world, scorer=Absent(world))
    _, failed = await run(with_absent, world, refused_faults=["scaled"])
    errors = [each.error for each in failed.outcomes.values() if each.state == "failed"]
    assert {type(error) for error in errors} == {BackendUnavailable}
    assert not [each for each in failed.outcomes.values() if each.state == "done"]


async def test_the_filter_has_its_yield_where_it_is_applied_and_holds_by_other_thresholds() -> None:
    world = FakeWorld()
    services = fake_services(world, scorer=ByTurns(world))
    asked: dict[str, object] = {"confirm": False, "refused_faults": ["moved"]}
    sources = [world.source("sled", number) for number in range(4)]
    config, _ = await planned(sources, services, redraw=None, **asked)
    plan, record = await stress_test(world, sources, services, None, **asked)
    items = items_of(plan, record)
    columns, estimator = columns_of(items), LanceEstimator(3)
    passed = estimator.yields(columns)["preservation"]
    edits = [item for item in items if item.kind == "edit"]
    dropped = [item for item in edits if item.reason == PRESERVATION]
    assert 0 < len(dropped) < len(edits)
    assert passed.estimate == pytest.approx(1 - len(dropped) / len(edits))
    assert "preservation" not in estimator.yields(columns_of([]), unused=[PRESERVATION])

    looser = JudgingAgain(config, Thresholds(direction=-1.0))
    again = {item.id: item for item in looser.items(items)}
    assert {again[item.id].reason for item in dropped} == {PRESERVATION}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"preservation": "none", "refused_faults": ["moved"]}, "none is measured; leave preservation out"),
        (
            {
                "preservation": "served", "refused_faults": ["moved"], "max_edits_per_image": 0,
                "transforms": {"operations": ["rotation"]},
            },
            "no image is edited by its caption; leave refused_faults out",
        ),
    ],
)  # fmt: skip
async def test_wishes_that_contradict_are_refused(asked: dict[str, object], said: str) -> None:
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match=said):
        await planned([world.source("sled", 0)], fake_services(world), redraw=None, **asked)


async def test_operations_alone_have_no_preservation() -> None:
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match="no image is edited by its caption; leave preservation out"):
        await planned(
            [world.source("sled", 0)], fake_services(world), preservation="all", max_edits_per_image=0,
            transforms={"operations": ["rotation"]},
        )  # fmt: skip
