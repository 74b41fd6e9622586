"""A bug hunt by its id: a run that finds descriptions of images on which classifiers fail."""

from __future__ import annotations

from faultline._run_calls import RunCalls
from faultline._runs import AsyncRunHandle, RunHandle
from faultline_core.contract.bug_hunt_summary import Bug, BugHuntSummary
from faultline_core.contract.bug_hunts import HuntItem

BUG_HUNTS = RunCalls("bug-hunt", HuntItem, BugHuntSummary)


class BugHunt(RunHandle[HuntItem, BugHuntSummary]):
    """A bug hunt, followed by blocking calls."""

    _calls = BUG_HUNTS

    def bugs(self, *, proven: bool = True) -> list[Bug]:
        """Return the bugs that held-out images prove, the surest first.

        Args:
            proven: with False, also those that held-out images do not prove, each with its state.
        """
        return _bugs(self.summary(), proven)


class AsyncBugHunt(AsyncRunHandle[HuntItem, BugHuntSummary]):
    """A bug hunt, followed by awaitable calls."""

    _calls = BUG_HUNTS

    async def bugs(self, *, proven: bool = True) -> list[Bug]:
        """Return the bugs that held-out images prove; as `BugHunt.bugs`."""
        return _bugs(await self.summary(), proven)


def _bugs(summary: BugHuntSummary, proven: bool) -> list[Bug]:
    return [bug for bug in summary.bugs if bug.state == "breaks" or not proven]
