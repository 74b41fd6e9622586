"""The keyed batcher, the engine's thread, merged calls and the model cache, on the event loop alone."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Sequence

import pytest

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.scorer import Embedding, EmbedResponse
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, UnknownModel
from counterpose_core.types import Cost
from counterpose_services.batching.batcher import Batcher
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import MergedCalls, shares
from counterpose_services.models.model_cache import Loaded, ModelCache

LONG = 60.0
"""A wait longer than any test: a test that ends shows that nothing waited for it."""


class Recorder:
    """Doubles numbers, records the batches, and can be blocked."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[int]]] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, key: str, items: list[int]) -> Sequence[int]:
        self.batches.append((key, items))
        self.started.set()
        await self.go_on.wait()
        if -1 in items:
            raise UnknownModel("minus one")
        return [2 * item for item in items]


async def test_queued_items_with_one_key_share_a_batch() -> None:
    run = Recorder()
    batcher = Batcher(run, max_size=4, max_wait=LONG)
    first, second = await asyncio.gather(batcher.submit("a", [1, 2]), batcher.submit("a", [3, 4]))
    assert (first, second) == ([2, 4], [6, 8])
    assert run.batches == [("a", [1, 2, 3, 4])]


async def test_items_with_different_keys_never_share_a_batch() -> None:
    run = Recorder()
    batcher = Batcher(run, max_size=4, max_wait=0.0)
    await asyncio.gather(batcher.submit("a", [1]), batcher.submit("b", [2]), batcher.submit("a", [3]))
    assert sorted(run.batches) == [("a", [1, 3]), ("b", [2])]


async def test_a_full_batch_does_not_wait() -> None:
    batcher = Batcher(Recorder(), max_size=2, max_wait=LONG)
    async with asyncio.timeout(LONG / 2):
        assert await batcher.submit("a", [1, 2]) == [2, 4]


async def test_a_single_item_waits_only_for_the_maximum_delay() -> None:
    batcher = Batcher(Recorder(), max_size=100, max_wait=0.01)
    async with asyncio.timeout(LONG / 2):
        assert await batcher.submit("a", [1]) == [2]


async def test_oversized_batches_are_split_and_results_stay_in_order() -> None:
    run = Recorder()
    batcher = Batcher(run, max_size=3, max_wait=0.0)
    assert await batcher.submit("a", list(range(8))) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [len(items) for _, items in run.batches] == [3, 3, 2]


async def held_up(run: Recorder) -> tuple[Batcher[str, int, int], asyncio.Task[list[int]]]:
    """A batcher whose first batch, of one item, runs until ``run`` may go on."""
    run.go_on.clear()
    batcher = Batcher(run, max_size=8, max_wait=0.0)
    first = asyncio.create_task(batcher.submit("a", [1]))
    await run.started.wait()
    return batcher, first


async def test_the_next_batch_collects_items_while_one_runs() -> None:
    run = Recorder()
    batcher, first = await held_up(run)
    rest = [asyncio.create_task(batcher.submit("a", [item])) for item in (2, 3, 4)]
    await asyncio.sleep(0)
    run.go_on.set()
    await asyncio.gather(first, *rest)
    assert run.batches == [("a", [1]), ("a", [2, 3, 4])]


async def test_an_error_reaches_only_the_callers_of_its_batch() -> None:
    batcher = Batcher(Recorder(), max_size=8, max_wait=0.0)
    good, bad, mate = await asyncio.gather(
        batcher.submit("b", [5]), batcher.submit("a", [-1]), batcher.submit("a", [1]), return_exceptions=True
    )
    assert good == [10]
    assert isinstance(bad, UnknownModel)
    assert isinstance(mate, UnknownModel)
    assert await batcher.submit("a", [1]) == [2]


async def test_a_batch_with_too_few_results_is_an_error() -> None:
    async def forgetful(_: str, items: list[int]) -> list[int]:
        return items[1:]

    with pytest.raises(BadBackendOutput, match="2 values for a batch of 3 items"):
        await Batcher(forgetful, max_size=8, max_wait=0.0).submit("a", [1, 2, 3])


async def test_a_caller_cancelled_before_the_start_withdraws_its_items() -> None:
    run = Recorder()
    batcher, first = await held_up(run)
    leaving, staying = (asyncio.create_task(batcher.submit("a", [item])) for item in (2, 3))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    run.go_on.set()
    assert await first == [2]
    assert await staying == [6]
    assert run.batches == [("a", [1]), ("a", [3])]


async def test_a_caller_cancelled_midway_does_not_affect_the_others() -> None:
    run = Recorder()
    run.go_on.clear()
    batcher = Batcher(run, max_size=2, max_wait=LONG)
    leaving, staying = (asyncio.create_task(batcher.submit("a", [item])) for item in (1, 2))
    await run.started.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    run.go_on.set()
    assert await staying == [4]
    assert leaving.cancelled()


async def test_the_thread_runs_calls_one_at_a_time_off_the_event_loop() -> None:
    thread, seen = EngineThread(hung_after_s=LONG), list[tuple[int, bool]]()

    def note(number: int) -> int:
        seen.append((number, threading.current_thread() is threading.main_thread()))
        return number

    assert await asyncio.gather(*(thread.run(note, number) for number in range(4))) == [0, 1, 2, 3]
    assert seen == [(number, False) for number in range(4)]


async def test_a_call_is_notified_when_its_caller_is_cancelled() -> None:
    thread, started, ended = EngineThread(hung_after_s=LONG), threading.Event(), threading.Event()

    def patient(_: str, *, cancelled: object) -> None:
        assert callable(cancelled)
        started.set()
        while not cancelled():
            pass
        ended.set()

    call = asyncio.create_task(thread.run_cancellable(patient, "body"))
    await asyncio.to_thread(started.wait)
    call.cancel()
    assert await asyncio.to_thread(ended.wait, LONG)


async def test_a_hanging_thread_is_unhealthy() -> None:
    now = [0.0]
    thread = EngineThread(hung_after_s=10.0, clock=lambda: now[0])
    started, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        go_on.wait()

    call = asyncio.create_task(thread.run(hang))
    await asyncio.to_thread(started.wait)
    now[0] = 9.0
    thread.check()
    now[0] = 11.0
    with pytest.raises(BackendUnavailable, match="busy"):
        thread.check()
    go_on.set()
    await call
    thread.check()


async def test_an_engine_that_waits_for_a_server_runs_calls_at_once_and_one_that_hangs_is_seen() -> None:
    now, together = [0.0], threading.Barrier(2)
    thread = EngineThread(hung_after_s=10.0, clock=lambda: now[0], calls=2)
    await asyncio.gather(*(thread.run(together.wait, LONG) for _ in range(2)))
    started, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        go_on.wait()

    call = asyncio.create_task(thread.run(hang))
    await asyncio.to_thread(started.wait)
    now[0] = 11.0
    await thread.run(int)
    with pytest.raises(BackendUnavailable, match="busy"):
        thread.check()
    go_on.set()
    await call


async def test_merged_calls_return_outcomes_and_cost_per_caller() -> None:
    sizes: list[int] = []

    def embed(_: None, items: list[str]) -> EmbedResponse:
        sizes.append(len(items))
        outcomes = [Outcome[Embedding](value=Embedding(vector=[float(len(item))])) for item in items]
        cost = Cost(clip_passes=len(items) + 1, seconds=1.0)
        return EmbedResponse(outcomes=outcomes, model=ModelIdentity(id="m", revision="r"), cost=cost)

    merged: MergedCalls[None, str, EmbedResponse] = MergedCalls(
        embed, EngineThread(hung_after_s=LONG), max_wait=0.0
    )
    one, two = await asyncio.gather(merged(None, ["a"]), merged(None, ["bb", "ccc"]))
    assert sizes == [3]
    assert [outcome.unwrap().vector for outcome in two.outcomes] == [[2.0], [3.0]]
    assert one.model.id == "m"
    assert one.cost.clip_passes + two.cost.clip_passes == 4
    assert one.cost.seconds + two.cost.seconds == pytest.approx(1.0)


def test_cost_shares_are_integers_that_add_up() -> None:
    parts = shares(Cost(unet_calls=7, clip_passes=2, seconds=1.5), 3)
    assert [part.unet_calls for part in parts] == [3, 2, 2]
    assert sum(parts, start=Cost()).model_dump() == pytest.approx(
        Cost(unet_calls=7, clip_passes=2, seconds=1.5).model_dump()
    )


def loader(log: list[str], name: str, size: int) -> Loaded[str]:
    log.append(name)
    return Loaded(name.upper(), size)


def test_models_are_loaded_once_and_idle_ones_are_evicted() -> None:
    cache: ModelCache[str] = ModelCache(100)
    log: list[str] = []
    for name in ("a", "b", "a", "c"):
        with cache.borrow(name, functools.partial(loader, log, name, 40)) as model:
            assert model == name.upper()
    assert log == ["a", "b", "c"]
    assert cache.keys == ["a", "c"]
    assert cache.size_bytes == 80


def test_a_model_in_use_is_never_evicted() -> None:
    cache: ModelCache[str] = ModelCache(50)
    log: list[str] = []
    with cache.borrow("a", lambda: loader(log, "a", 40)):
        with cache.borrow("b", lambda: loader(log, "b", 40)):
            assert cache.keys == ["a", "b"]
        assert cache.keys == ["a"]
    assert cache.keys == ["a"]


def test_a_model_over_the_budget_stays_until_another_one_is_loaded() -> None:
    cache: ModelCache[str] = ModelCache(10)
    log: list[str] = []
    for _ in range(3):
        with cache.borrow("a", lambda: loader(log, "a", 40)) as model:
            assert model == "A"
    assert (log, cache.loads, cache.holds("a")) == (["a"], 1, True)

    def after_a() -> Loaded[str]:
        # Two such models may not fit beside each other.
        assert cache.keys == []
        return loader(log, "b", 40)

    with cache.borrow("b", after_a):
        assert cache.keys == ["b"]
    assert (cache.keys, cache.loads, cache.holds("a")) == (["b"], 2, False)


def test_a_model_that_fails_to_load_leaves_nothing_behind() -> None:
    cache: ModelCache[str] = ModelCache(10)

    def fail() -> Loaded[str]:
        raise UnknownModel("gone")

    with pytest.raises(UnknownModel), cache.borrow("a", fail):
        pass
    with cache.borrow("a", lambda: Loaded("A", 1)) as model:
        assert model == "A"
