"""An attempt records together what ends between two calls, and one bad outcome costs no other item."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import BackendUnavailable, CounterposeError, InvalidRequest
from counterpose_gateway.records.items import LeasedGroup, LeasedItem
from counterpose_gateway.records.outcomes import Done, Outcome
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.drops import Drops
from fakes.ports import fake_services
from fakes.recorder import FakeRecorder
from fakes.store import FakeStore
from fakes.world import FakeWorld

IMAGE = "a" * 64
RESULT = ItemResult(image=IMAGE, caption="a sled")


def group(size: int) -> LeasedGroup:
    items = [
        LeasedItem(
            item_key=f"key-{n}", ordinal=n, kind="edit", item_group="source-0", source_image=IMAGE,
            label="sled", id=f"run.{n}", fence=1, attempt=1,
        )
        for n in range(size)
    ]  # fmt: skip
    return LeasedGroup(run_id="run", kind="stress-test", config={}, item_group="source-0", items=items)


class Batches(FakeRecorder):
    """Notes how many outcomes were recorded together; refuses results with some captions."""

    def __init__(self, refusal: CounterposeError | None = None, *, times: int = 99) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._refusal, self._times = refusal, times

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        self.sizes.append(len(outcomes))
        bad = [each for _, each in outcomes if isinstance(each, Done) and "bad" in str(each.result)]
        if bad and self._refusal is not None and self._times > 0:
            self._times -= 1
            raise self._refusal
        await super().ended(outcomes)


async def no_call(request: object) -> None:
    return None


async def test_what_ends_between_two_calls_is_recorded_together_before_the_next_call() -> None:
    leased, record = group(5), Batches()
    attempt = OpenItems(leased, fake_services(FakeWorld()), record, FakeStore())

    async def work() -> None:
        for item in leased.items[:3]:
            await attempt.done(item, RESULT)
        assert record.sizes == []
        await attempt.calls.call("editor", no_call, None)
        assert record.sizes == [3]
        for item in leased.items[3:]:
            await attempt.filtered(item, "no-edit")

    await finish_group(attempt, leased, work())
    assert record.sizes == [3, 2]
    assert len(record.outcomes) == 5


async def test_a_result_that_the_ledger_cannot_keep_fails_its_item_alone() -> None:
    leased, record = group(3), Batches(InvalidRequest("the ledger cannot keep this: too long"))
    attempt = OpenItems(leased, fake_services(FakeWorld()), record, FakeStore())

    async def work() -> None:
        for item, caption in zip(leased.items, ("good", "bad", "good"), strict=True):
            await attempt.done(item, RESULT.model_copy(update={"caption": caption}))

    await finish_group(attempt, leased, work())
    assert [found.state for found in record.outcomes.values()] == ["done", "failed", "done"]


async def test_outcomes_are_kept_while_the_ledger_is_away() -> None:
    leased, record = group(2), Batches(BackendUnavailable("locked"), times=1)
    attempt = OpenItems(leased, fake_services(FakeWorld()), record, FakeStore())

    async def work() -> None:
        await attempt.done(leased.items[0], RESULT.model_copy(update={"caption": "bad luck"}))
        await attempt.calls.call("editor", no_call, None)

    await finish_group(attempt, leased, work())
    assert [found.state for found in record.outcomes.values()] == ["done", "failed"]


async def test_no_outcome_is_recorded_twice_though_the_work_fails_after_it() -> None:
    leased, record = group(2), Batches()
    attempt = OpenItems(leased, fake_services(FakeWorld()), record, FakeStore())

    async def work() -> None:
        await attempt.done(leased.items[0], RESULT)
        raise BackendUnavailable("the editor is down")

    await finish_group(attempt, leased, work())
    assert [found.state for found in record.outcomes.values()] == ["done", "failed"]
    assert record.sizes == [2]


@pytest.mark.parametrize("size", [1, 4])
async def test_items_without_an_outcome_fail_together(size: int) -> None:
    leased, record = group(size), Batches()

    async def nothing() -> None:
        return None

    await finish_group(OpenItems(leased, fake_services(FakeWorld()), record, FakeStore()), leased, nothing())
    assert record.sizes == [size]


def down() -> None:
    raise BackendUnavailable("the editor is down")


async def test_what_a_step_drops_ends_as_it_was_dropped_first() -> None:
    leased, record = group(3), Batches()
    attempt, drops = OpenItems(leased, fake_services(FakeWorld()), record, FakeStore()), Drops()
    first, _, third = leased.items
    with drops.on_error(leased.items[:2]):
        drops.filtered(first, "no-edit", "nothing was proposed", RESULT)
        down()
    assert attempt.keep(([third], drops)) == [third] == attempt.open
    await finish_group(attempt, leased, attempt.done(third, RESULT))
    found = [record.outcomes[item.id] for item in leased.items]
    assert [each.state for each in found] == ["filtered", "failed", "done"]
    assert (found[0].reason, found[0].result is None) == ("no-edit", False)
