"""``client.stress_tests``: run LANCE on a dataset and read what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from faultline._runs import AsyncStressTest, StressTest
from faultline._sending import AsyncSender, Sender
from faultline._stress_test_calls import create_call, get_call, list_call
from faultline_core.contract.runs import Run
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.types import EDIT_TYPES, EditType, Selection


def _body(
    dataset: str,
    classifiers: Sequence[str],
    edit_types: Sequence[EditType],
    max_edits_per_image: int,
    preset: str,
    selection: Selection,
    limit: int | None,
    seed: int,
) -> StressTestCreate:
    return StressTestCreate(
        dataset=dataset,
        classifiers=list(classifiers),
        edit_types=list(edit_types),
        max_edits_per_image=max_edits_per_image,
        preset=preset,
        selection=selection,
        limit=limit,
        seed=seed,
    )


class StressTests:
    """``/v1/stress-tests``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        *,
        dataset: str,
        classifiers: Sequence[str],
        edit_types: Sequence[EditType] = EDIT_TYPES,
        max_edits_per_image: int = 5,
        preset: str = "quick",
        selection: Selection = "paper",
        limit: int | None = None,
        seed: int,
        idempotency_key: str | None = None,
    ) -> StressTest:
        """Start a stress test; it goes on whether or not anybody waits for it."""
        body = _body(dataset, classifiers, edit_types, max_edits_per_image, preset, selection, limit, seed)
        return StressTest(self._sender, self._sender.send(create_call(body, idempotency_key)))

    def get(self, run_id: str) -> StressTest:
        """Take up a stress test by its id."""
        return StressTest(self._sender, self._sender.send(get_call(run_id)))

    def list(self) -> Iterator[Run]:
        """Go through all stress tests, newest first."""
        after: str | None = None
        while True:
            page = self._sender.send(list_call(after=after))
            yield from page.runs
            after = page.after
            if after is None:
                return


class AsyncStressTests:
    """``/v1/stress-tests``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        *,
        dataset: str,
        classifiers: Sequence[str],
        edit_types: Sequence[EditType] = EDIT_TYPES,
        max_edits_per_image: int = 5,
        preset: str = "quick",
        selection: Selection = "paper",
        limit: int | None = None,
        seed: int,
        idempotency_key: str | None = None,
    ) -> AsyncStressTest:
        """Start a stress test; it goes on whether or not anybody waits for it."""
        body = _body(dataset, classifiers, edit_types, max_edits_per_image, preset, selection, limit, seed)
        return AsyncStressTest(self._sender, await self._sender.send(create_call(body, idempotency_key)))

    async def get(self, run_id: str) -> AsyncStressTest:
        """Take up a stress test by its id."""
        return AsyncStressTest(self._sender, await self._sender.send(get_call(run_id)))

    async def list(self) -> AsyncIterator[Run]:
        """Go through all stress tests, newest first."""
        after: str | None = None
        while True:
            page = await self._sender.send(list_call(after=after))
            for run in page.runs:
                yield run
            after = page.after
            if after is None:
                return
