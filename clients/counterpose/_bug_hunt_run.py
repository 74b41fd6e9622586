"""A bug hunt by its id: a run that finds descriptions of images on which classifiers fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._run_calls import RunCalls
from counterpose._runs import AsyncRunHandle, RunHandle
from counterpose_core.contract.bug_hunt_summary import Bug, BugHuntSummary
from counterpose_core.contract.bug_hunts import DescriptionsCreate, HuntItem
from counterpose_core.contract.runs import Run

BUG_HUNTS = RunCalls("bug-hunt", HuntItem, BugHuntSummary)


def measure_call(
    run_id: str,
    descriptions: Sequence[str],
    images: int | None,
    photographs: Mapping[str, str] | None,
    seed: int | None,
    key: str | None,
) -> Call[Run]:
    """``POST /v1/bug-hunts/{id}/descriptions``; the key makes it safe to send again."""
    return Call(
        method="POST",
        path=BUG_HUNTS.path(run_id, "/descriptions"),
        body=DescriptionsCreate.model_validate(
            {
                "descriptions": list(descriptions),
                "images": images,
                **({} if photographs is None else {"photographs": dict(photographs)}),
                "seed": seed,
            }
        ),
        parse=reading(Run),
        headers=idempotency_headers(key),
    )


class BugHunt(RunHandle[HuntItem, BugHuntSummary]):
    """A bug hunt, followed by blocking calls."""

    _calls = BUG_HUNTS

    def measure(
        self,
        *descriptions: str,
        images: int | None = None,
        photographs: Mapping[str, str] | None = None,
        seed: int | None = None,
        idempotency_key: str | None = None,
    ) -> BugHunt:
        """Measure descriptions of your own by a child run, on fresh images beside the label alone.

        Each classifier of the hunt is tested on each; ``bugs(proven=False)`` of the child has all of them.

        Args:
            descriptions: prompts such as "a photo of a fly at night", which name a label of the hunt and no
                other class.
            images: of each description and of the label alone; default: the hunt's held-out images.
            photographs: names of two datasets of yours as external check of one description: ``described``,
                whose images of the label fit it, and ``alone``, of the label otherwise.
            seed: default: one that follows from the hunt's own, another one for each child.
            idempotency_key: makes a repeated call return the first run.

        Raises:
            InvalidRequest: a description names no label of the hunt, or another class, or words that the
                generator does not know.
            RunNotEnded: the hunt has not ended.
        """
        call = measure_call(self.id, descriptions, images, photographs, seed, idempotency_key)
        return BugHunt(self._sender, self._sender.send(call))

    def bugs(self, *, proven: bool = True) -> list[Bug]:
        """Return the bugs that held-out images prove, the surest first.

        Args:
            proven: with False, also those that held-out images do not prove, each with its state.
        """
        return _bugs(self.summary(), proven)


class AsyncBugHunt(AsyncRunHandle[HuntItem, BugHuntSummary]):
    """A bug hunt, followed by awaitable calls."""

    _calls = BUG_HUNTS

    async def measure(
        self,
        *descriptions: str,
        images: int | None = None,
        photographs: Mapping[str, str] | None = None,
        seed: int | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncBugHunt:
        """Measure descriptions of your own by a child run; as `BugHunt.measure`."""
        call = measure_call(self.id, descriptions, images, photographs, seed, idempotency_key)
        return AsyncBugHunt(self._sender, await self._sender.send(call))

    async def bugs(self, *, proven: bool = True) -> list[Bug]:
        """Return the bugs that held-out images prove; as `BugHunt.bugs`."""
        return _bugs(await self.summary(), proven)


def _bugs(summary: BugHuntSummary, proven: bool) -> list[Bug]:
    return [bug for bug in summary.bugs if bug.state == "breaks" or not proven]
