"""A stress test by its id: a run whose insights can be applied to the whole dataset."""

from __future__ import annotations

from faultline._apply_insight import insight_of, insight_request, needs_example
from faultline._exported_runs import AsyncExportedRun, ExportedRun
from faultline._run_calls import RunCalls
from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import Insight, StressTestSummary

STRESS_TESTS = RunCalls("stress-test", Item, StressTestSummary)


class StressTest(ExportedRun[Item, StressTestSummary]):
    """A stress test, followed by blocking calls."""

    _calls = STRESS_TESTS

    def apply(self, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Start a stress test that applies one insight's edit, and no other, to every image of the dataset.

        Args:
            insight: one of the summary's insights, or its number from 1.
            seed: default: the run's seed plus one.

        A classifier ``py:...`` must still be served by this client.

        Raises:
            InvalidRequest: there is no such insight, or its words cannot be read from its example.
        """
        summary = self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = next((item for item in self.items() if item.id == found.example_item), None)
        body = insight_request(summary, found, example, seed)
        return StressTest(self._sender, self._sender.send(STRESS_TESTS.create(body, None)))


class AsyncStressTest(AsyncExportedRun[Item, StressTestSummary]):
    """A stress test, followed by awaitable calls."""

    _calls = STRESS_TESTS

    async def apply(self, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Start a stress test of one insight's edit alone; as `StressTest.apply`."""
        summary = await self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = await anext(
                (item async for item in self.items() if item.id == found.example_item), None
            )
        body = insight_request(summary, found, example, seed)
        return AsyncStressTest(self._sender, await self._sender.send(STRESS_TESTS.create(body, None)))
