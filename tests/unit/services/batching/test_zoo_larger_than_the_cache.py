"""A zoo larger than the cache: networks that are loaded go first, and each is loaded for all that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.scorer import Embedding, EmbedResponse
from counterpose_services.batching.batcher import Batcher
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.models.model_cache import Loaded, ModelCache

ZOO = [f"network {number}" for number in range(12)]
HELD, GROUPS, IMAGES = 4, 6, 5
NONE = ModelIdentity(id="none", revision="0")


class Zoo:
    """Twelve networks of which four fit; a group of images comes when the one before is half done."""

    def __init__(self, prepared: Callable[[ModelCache[str], str], bool]) -> None:
        self.cache: ModelCache[str] = ModelCache(HELD)
        thread = EngineThread(hung_after_s=60.0)
        self.calls = MergedCalls(
            self._classify, thread, max_wait=0.0, prepared=lambda key: prepared(self.cache, key)
        )

    def _classify(self, network: str, images: list[str]) -> EmbedResponse:
        answer: Outcome[Embedding] = Outcome(value=Embedding(vector=[1.0]))
        with self.cache.borrow(network, lambda: Loaded(network, 1)):
            return EmbedResponse(outcomes=[answer] * len(images), model=NONE)

    async def classify_in_turn(self, left: int = GROUPS) -> int:
        """Classify so many groups; return how often a network was loaded."""
        half_done = asyncio.Event()
        group = asyncio.create_task(self.classify(left, half_done))
        await half_done.wait()
        if left > 1:
            await self.classify_in_turn(left - 1)
        await group
        return self.cache.loads

    async def classify(self, group: int, half_done: asyncio.Event) -> None:
        """Classify a group's images by every network."""
        images, answered = [f"{group}/{number}" for number in range(IMAGES)], list[str]()

        async def ask(network: str) -> None:
            await self.calls(network, images)
            answered.append(network)
            if 2 * len(answered) >= len(ZOO):
                half_done.set()

        await asyncio.gather(*(ask(network) for network in ZOO))


async def test_networks_that_are_loaded_go_first() -> None:
    oldest_first = await Zoo(lambda cache, key: True).classify_in_turn()
    loaded_first = await Zoo(lambda cache, key: cache.holds(key)).classify_in_turn()
    # About 47 and 27 of the 72 that there would be one by one; both depend on the threads' timing.
    assert loaded_first <= 0.85 * oldest_first


async def test_groups_that_wait_together_share_every_load() -> None:
    zoo = Zoo(lambda cache, key: cache.holds(key))
    await asyncio.gather(*(zoo.classify(group, asyncio.Event()) for group in range(GROUPS)))
    assert zoo.cache.loads == len(ZOO)


async def test_what_has_waited_too_long_goes_before_what_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def run(key: str, items: list[int]) -> list[int]:
        order.append(key)
        begun.set()
        await go_on.wait()
        return items

    batcher = Batcher(run, max_size=1, max_wait=0.0, prepared=lambda key: key == "loaded", most_patient=10.0)
    first = asyncio.create_task(batcher.submit("loaded", [0]))
    await begun.wait()
    rest = [asyncio.create_task(batcher.submit(key, [0])) for key in ("waiting", "loaded", "loaded")]
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + (11.0 if len(order) > 1 else 1.0))
    go_on.set()
    await asyncio.gather(first, *rest)
    assert order == ["loaded", "loaded", "waiting", "loaded"]
