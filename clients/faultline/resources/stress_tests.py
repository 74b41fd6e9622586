"""``client.stress_tests``: run LANCE on a dataset and read what came of it."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Generic, TypeVar

from faultline._calls import Call
from faultline._paging import pages, pages_async
from faultline._runs import AsyncStressTest, StressTest
from faultline._sending import AsyncSender, Sender
from faultline._stress_test_calls import create_call, get_call, list_call
from faultline_core.contract.interventions import Intervention, interventions_of
from faultline_core.contract.runs import Run
from faultline_core.contract.stress_tests import Insight, StressTestCreate
from faultline_core.types import EDIT_TYPES, EditType, Selection

H = TypeVar("H")


class _Taking(ABC, Generic[H]):
    """The verbs that hand out a stress test; ``H`` is the handle, or a coroutine that gives it."""

    def create(
        self,
        *,
        dataset: str,
        classifiers: Sequence[str],
        edit_types: Sequence[EditType] = EDIT_TYPES,
        max_edits_per_image: int = 5,
        interventions: Sequence[str | Intervention] = (),
        lance_r_edits_per_image: int = 1,
        preset: str = "quick",
        selection: Selection = "paper",
        limit: int | None = None,
        refused_words: Sequence[str] = (),
        exclude: Sequence[str] = (),
        seed: int,
        idempotency_key: str | None = None,
    ) -> H:
        """Start a stress test; it goes on whether or not anybody waits for it.

        A classifier ``py:module:function`` is served by this client until the client is closed. An
        intervention replaces words of your choice, ``"husky=>schnauzer,poodle"`` one for each after the
        arrow; ``"=>in the snow"`` appends, ``"in the rain=>"`` takes out. With the ``selection``
        ``"released"`` the largest value of the sweep that passes is kept, and most others are never made;
        ``"paper"`` compares them all.

        Raises:
            InvalidRequest: an intervention cannot be read.
        """
        body = StressTestCreate(
            dataset=dataset,
            classifiers=self._served(classifiers),
            edit_types=list(edit_types),
            max_edits_per_image=max_edits_per_image,
            interventions=interventions_of(interventions),
            lance_r_edits_per_image=lance_r_edits_per_image,
            preset=preset,
            selection=selection,
            limit=limit,
            refused_words=list(refused_words),
            exclude=list(exclude),
            seed=seed,
        )
        return self._take(create_call(body, idempotency_key))

    def get(self, run_id: str) -> H:
        """Take up a stress test by its id."""
        return self._take(get_call(run_id))

    @abstractmethod
    def _served(self, classifiers: Sequence[str]) -> list[str]: ...

    @abstractmethod
    def _take(self, call: Call[Run]) -> H: ...


class StressTests(_Taking[StressTest]):
    """``/v1/stress-tests``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> Iterator[Run]:
        """Go through all stress tests, newest first."""
        for page in pages(self._sender, list_call):
            yield from page.runs

    def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Apply an insight of a run to its whole dataset, as `StressTest.apply`."""
        return self.get(run_id).apply(insight, seed=seed)

    def _served(self, classifiers: Sequence[str]) -> builtins.list[str]:
        return self._sender.served(classifiers)

    def _take(self, call: Call[Run]) -> StressTest:
        return StressTest(self._sender, self._sender.send(call))


class AsyncStressTests(_Taking[Coroutine[Any, Any, AsyncStressTest]]):
    """``/v1/stress-tests``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> AsyncIterator[Run]:
        """Go through all stress tests, newest first."""
        async for page in pages_async(self._sender, list_call):
            for run in page.runs:
                yield run

    async def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Apply an insight of a run to its whole dataset, as `AsyncStressTest.apply`."""
        return await (await self.get(run_id)).apply(insight, seed=seed)

    def _served(self, classifiers: Sequence[str]) -> builtins.list[str]:
        return self._sender.served(classifiers)

    async def _take(self, call: Call[Run]) -> AsyncStressTest:
        return AsyncStressTest(self._sender, await self._sender.send(call))
