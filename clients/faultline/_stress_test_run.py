"""A stress test taken by its id: as every run, and its insights can be applied to the whole dataset."""

from __future__ import annotations

from faultline._exported_runs import AsyncExportedRun, ExportedRun
from faultline._follow_up import follow_up, insight_of, needs_example
from faultline._run_calls import RunCalls
from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import Insight, StressTestSummary

STRESS_TESTS = RunCalls("stress-test", Item, StressTestSummary)


class StressTest(ExportedRun[Item, StressTestSummary]):
    """A stress test, followed by blocking calls."""

    _calls = STRESS_TESTS

    def apply(self, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Start a stress test that makes an insight's change, and no other, in every picture of the dataset.

        ``insight`` is one of the summary's, or its number there from 1. ``seed`` is the run's plus one
        unless given. A classifier ``py:...`` has to be served still.

        Raises:
            InvalidRequest: there is no such insight, or its words cannot be told.
        """
        summary = self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = next((item for item in self.items() if item.id == found.example_item), None)
        body = follow_up(summary, found, example, seed)
        return StressTest(self._sender, self._sender.send(STRESS_TESTS.create(body, None)))


class AsyncStressTest(AsyncExportedRun[Item, StressTestSummary]):
    """A stress test, followed by awaitable calls."""

    _calls = STRESS_TESTS

    async def apply(self, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Start a stress test of an insight's change alone; as `StressTest.apply`."""
        summary = await self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = await anext(
                (item async for item in self.items() if item.id == found.example_item), None
            )
        body = follow_up(summary, found, example, seed)
        return AsyncStressTest(self._sender, await self._sender.send(STRESS_TESTS.create(body, None)))
