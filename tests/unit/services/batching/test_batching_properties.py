"""Properties of batching, proposals and shortened captions for arbitrary inputs."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose_core.errors import PromptTooLong, UnknownModel
from counterpose_core.types import Cost
from counterpose_services.batching.batcher import Batcher
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import shares
from counterpose_services.captioner.shortening import shortened
from counterpose_services.models.model_cache import Loaded, ModelCache
from counterpose_services.perturber.proposals import Proposals

calls = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 99), min_size=1, max_size=9)), max_size=12
)
words = st.lists(st.sampled_from(["a", "boat", "tram,", "and", "sea.", "3,5", "with", "night"]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(calls=calls, max_size=st.integers(1, 6), leaving=st.sets(st.integers(0, 11)))
def test_every_remaining_caller_gets_its_values_in_order(
    calls: list[tuple[str, list[int]]], max_size: int, leaving: set[int]
) -> None:
    batches: list[list[tuple[str, int]]] = []

    async def run(key: str, items: list[int]) -> list[tuple[str, int]]:
        batches.append([(key, item) for item in items])
        await asyncio.sleep(0)
        return [(key, item) for item in items]

    async def serve() -> list[object]:
        batcher = Batcher(run, max_size=max_size, max_wait=0.0)
        tasks = [asyncio.create_task(batcher.submit(key, items)) for key, items in calls]
        await asyncio.sleep(0)
        for index in leaving & set(range(len(tasks))):
            tasks[index].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    for index, (found, (key, items)) in enumerate(zip(asyncio.run(serve()), calls, strict=True)):
        if index not in leaving:
            assert found == [(key, item) for item in items]
    assert all(len(batch) <= max_size and len({key for key, _ in batch}) == 1 for batch in batches)
    started = Counter(one for batch in batches for one in batch)
    assert not started - Counter((key, item) for key, items in calls for item in items)


@given(
    cost=st.builds(
        Cost, unet_calls=st.integers(0, 999), clip_passes=st.integers(0, 999), seconds=st.floats(0, 1e6)
    ),
    n=st.integers(1, 64),
)
def test_shares_add_up_and_differ_by_at_most_one(cost: Cost, n: int) -> None:
    parts = shares(cost, n)
    whole = sum(parts, start=Cost())
    assert (whole.unet_calls, whole.clip_passes) == (cost.unet_calls, cost.clip_passes)
    assert whole.seconds == pytest.approx(cost.seconds)
    assert max(part.unet_calls for part in parts) - min(part.unet_calls for part in parts) <= 1


@given(parts=words, limit=st.integers(1, 12), complete=st.booleans())
def test_a_shortened_caption_fits_and_is_a_prefix(parts: list[str], limit: int, complete: bool) -> None:
    text = " ".join(parts)

    def fits(beginning: str) -> bool:
        return len(beginning.split()) <= limit

    try:
        kept = shortened(text, fits, complete=complete)
    except PromptTooLong:
        assert not fits(text)
        return
    assert fits(kept)
    assert text.startswith(kept)
    assert kept == text or not (complete and fits(text))


@given(
    drawn=st.lists(st.sampled_from(["a red boat", "a blue boat", "a  red boat", "", "a tram"])),
    wanted=st.integers(1, 4),
)
def test_every_draw_is_an_edit_or_a_named_loss_until_there_are_enough(drawn: list[str], wanted: int) -> None:
    proposals = Proposals("a red boat", wanted)
    taken = 0
    for text in drawn:
        taken += proposals.missing > 0
        proposals.take(text)
    answer = proposals.answer()
    texts = [edit.edited_caption for edit in answer.edits]
    assert len(texts) == len(set(texts)) == wanted - proposals.missing
    assert len(texts) + sum(answer.dropped.values()) == taken
    assert "a red boat" not in texts


def test_a_model_requested_by_two_threads_is_loaded_once() -> None:
    cache: ModelCache[str] = ModelCache(100)
    both, loads = Barrier(2), list[int]()

    def load() -> Loaded[str]:
        loads.append(1)
        return Loaded("net", 10)

    def ask() -> str:
        both.wait()
        with cache.borrow("net", load) as model:
            return model

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(ask) for _ in range(2)]
        assert [one.result() for one in found] == ["net", "net"]
    assert loads == [1]


async def test_a_failed_call_leaves_the_thread_ready() -> None:
    now = [0.0]
    thread = EngineThread(hung_after_s=1.0, clock=lambda: now[0])

    def fail() -> None:
        raise UnknownModel("gone")

    with pytest.raises(UnknownModel):
        await thread.run(fail)
    now[0] = 99.0
    thread.check()
    assert await thread.run(len, "three") == 5
