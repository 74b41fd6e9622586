"""A stress test by its id: its findings can be proven, and its insights applied to the whole dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._exported_runs import AsyncExportedRun, ExportedRun
from counterpose._exports import ExportLayout
from counterpose._files import save_page
from counterpose._frames import data_frame
from counterpose._notebook import Findings
from counterpose._run_calls import FIGURES_TIMEOUT_S, Params, RunCalls
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.proofs import FindingHistory, ProofCreate
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import Insight, StressTestCreate, StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.caption_diff import words

if TYPE_CHECKING:
    from counterpose._python_function.model import AnyClassifier

STRESS_TESTS = RunCalls("stress-test", Item, StressTestSummary)

_KEPT = (
    "dataset",
    "classifiers",
    "preset",
    "selection",
    "self_replace",
    "thresholds",
    "exclude",
    "outside_suite",
)
"""What the new run takes from the first; it uses every image, whatever the first run's limit."""

NAMES = tuple(Thresholds.model_fields)
"""The thresholds by which a stress test can be judged again."""

_SEEDS = 2**63
_GAP = "…"
_MOST_UNCHANGED = 4
"""Unchanged words between changed ones that may still belong to one phrase."""


def prove_call(
    run_id: str,
    finding: Finding | int,
    images: int,
    dataset: str | None,
    seed: int | None,
    key: str | None,
    functions: Mapping[str, str],
) -> Call[Run]:
    """``POST /v1/stress-tests/{id}/findings/{number}:prove``; the key makes it safe to send again."""
    asked = {"images": images, "dataset": dataset, "seed": seed, "functions": functions or None}
    return Call(
        method="POST",
        path=STRESS_TESTS.path(run_id, f"/findings/{_number(finding)}:prove"),
        body=ProofCreate.model_validate({name: value for name, value in asked.items() if value is not None}),
        parse=reading(Run),
        headers=idempotency_headers(key),
        # The gateway sums the run up first.
        timeout=FIGURES_TIMEOUT_S,
    )


def served(sender: Sender | AsyncSender, classifier: AnyClassifier | None) -> dict[str, str]:
    """Serve the classifier, if it is a function or a model object; return its address by its name."""
    if classifier is None:
        return {}
    return sender.name_functions(sender.serve_functions([classifier])).functions


def finding_call(run_id: str, finding: Finding | int) -> Call[FindingHistory]:
    """``GET /v1/stress-tests/{id}/findings/{number}``."""
    return STRESS_TESTS.read(run_id, f"/findings/{_number(finding)}", FindingHistory)


def _number(finding: Finding | int) -> int:
    return finding.number if isinstance(finding, Finding) else finding


AnyThresholds = Thresholds | Mapping[str, float | bool]
"""Thresholds by name, as ``{"direction": 0.3}``, or as an object."""


class StressTest(ExportedRun[Item, StressTestSummary]):
    """A stress test, followed by blocking calls."""

    _calls = STRESS_TESTS

    def summary(self, *, thresholds: AnyThresholds | None = None) -> StressTestSummary:
        """Return the summary: each figure with its interval and n.

        Args:
            thresholds: judge the recorded scores by these, cosines from -1 to 1 by the names in `Thresholds`;
                those left out are the run's own. No image is made; `StressTestSummary.judged_again` counts
                what cannot be judged so.

        Raises:
            InvalidRequest: a threshold is unknown or out of range, or the run proves a finding of another.
        """
        return self._sender.send(self._calls.summary(self.id, _judged_by(thresholds)))

    def report(self, *, thresholds: AnyThresholds | None = None) -> str:
        """Return the report as one HTML file; ``thresholds`` as in `summary`."""
        return self._sender.send(self._calls.report(self.id, _judged_by(thresholds)))

    def save_report(self, path: str | Path, *, thresholds: AnyThresholds | None = None) -> Path:
        """Write the report to a file, as `RunHandle.save_report`; ``thresholds`` as in `summary`."""
        return save_page(Path(path), self.report(thresholds=thresholds))

    def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        thresholds: AnyThresholds | None = None,
    ) -> Path:
        """Write the kept images to a new ``folder``, as `ExportedRun.export`.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.
            thresholds: as in `summary`; they decide what was kept.
        """
        return self._exported(folder, layout, _judged_by(thresholds), dropped=dropped)

    def finding(self, finding: Finding | int) -> FindingHistory:
        """Return a finding as this run and all runs that prove it tell it together.

        Args:
            finding: one of the run's findings, or its number from 1.

        Raises:
            NotFound: the run has no such finding.
        """
        return self._sender.send(finding_call(self.id, finding))

    def prove(
        self,
        finding: Finding | int,
        images: int = 20,
        *,
        dataset: str | None = None,
        seed: int | None = None,
        classifier: AnyClassifier | None = None,
        idempotency_key: str | None = None,
    ) -> StressTest:
        """Start a child run that makes more pairs for one finding; this run stays as it is.

        You may look at the answer and ask for more as often as you like: what proves it allows for that.

        Args:
            finding: one of the run's findings, or its number from 1.
            images: the number of images to make a pair of, at most 100.
            dataset: where to take them from; default: the run's dataset.
            seed: default: one that follows from the run's own.
            classifier: the function or model that the finding is about, by the name that it had; needed
                where the program that served it to the run has ended.
            idempotency_key: makes a repeated call return the first run.

        Raises:
            NotFound: the run has no such finding.
            InvalidRequest: the classifier has another name than the finding's.
            BackendUnavailable: the classifier cannot be reached.
            RunNotEnded: the run, or an earlier proof of this finding, has not ended.
            DatasetEmpty: no image of the class is left.
        """
        functions = served(self._sender, classifier)
        call = prove_call(self.id, finding, images, dataset, seed, idempotency_key, functions)
        return StressTest(self._sender, self._sender.send(call))

    def findings(self) -> Findings:
        """Return the changes that cost a classifier its answers, the surest first."""
        return Findings(self.summary().findings)

    def findings_to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per finding; raises as `to_pandas`."""
        return data_frame(self.findings())

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
        body = insight_request(summary, found, example, seed, self._sender.functions_named)
        return StressTest(self._sender, self._sender.send(STRESS_TESTS.create(body, None)))


class AsyncStressTest(AsyncExportedRun[Item, StressTestSummary]):
    """A stress test, followed by awaitable calls."""

    _calls = STRESS_TESTS

    async def summary(self, *, thresholds: AnyThresholds | None = None) -> StressTestSummary:
        """Return the summary; as `StressTest.summary`."""
        return await self._sender.send(self._calls.summary(self.id, _judged_by(thresholds)))

    async def report(self, *, thresholds: AnyThresholds | None = None) -> str:
        """Return the report as one HTML file; as `StressTest.report`."""
        return await self._sender.send(self._calls.report(self.id, _judged_by(thresholds)))

    async def save_report(self, path: str | Path, *, thresholds: AnyThresholds | None = None) -> Path:
        """Write the report to a file; as `StressTest.save_report`."""
        return save_page(Path(path), await self.report(thresholds=thresholds))

    async def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        thresholds: AnyThresholds | None = None,
    ) -> Path:
        """Write the kept images to a new ``folder``; as `StressTest.export`."""
        return await self._exported(folder, layout, _judged_by(thresholds), dropped=dropped)

    async def finding(self, finding: Finding | int) -> FindingHistory:
        """Return a finding as all its runs tell it; as `StressTest.finding`."""
        return await self._sender.send(finding_call(self.id, finding))

    async def prove(
        self,
        finding: Finding | int,
        images: int = 20,
        *,
        dataset: str | None = None,
        seed: int | None = None,
        classifier: AnyClassifier | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncStressTest:
        """Start a child run that makes more pairs for one finding; as `StressTest.prove`."""
        functions = served(self._sender, classifier)
        call = prove_call(self.id, finding, images, dataset, seed, idempotency_key, functions)
        return AsyncStressTest(self._sender, await self._sender.send(call))

    async def findings(self) -> Findings:
        """Return the changes that cost a classifier its answers; as `StressTest.findings`."""
        return Findings((await self.summary()).findings)

    async def findings_to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per finding; raises as `to_pandas`."""
        return data_frame(await self.findings())

    async def apply(self, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Start a stress test of one insight's edit alone; as `StressTest.apply`."""
        summary = await self.summary()
        found, example = insight_of(summary, insight), None
        if needs_example(found):
            example = await anext(
                (item async for item in self.items() if item.id == found.example_item), None
            )
        body = insight_request(summary, found, example, seed, self._sender.functions_named)
        return AsyncStressTest(self._sender, await self._sender.send(STRESS_TESTS.create(body, None)))


def thresholds_of(given: AnyThresholds) -> Thresholds:
    """Check thresholds by name.

    Raises:
        InvalidRequest: a name is unknown, or a value out of range.
    """
    if isinstance(given, Thresholds):
        return given
    unknown = sorted(given.keys() - Thresholds.model_fields.keys())
    if unknown:
        raise InvalidRequest(f"no threshold is named {unknown[0]!r}; there are {', '.join(NAMES)}")
    return Thresholds.model_validate(dict(given))


def _judged_by(thresholds: AnyThresholds | None) -> Params:
    given = {} if thresholds is None else thresholds_of(thresholds).given()
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


# Applying one insight's edit to a whole dataset (LANCE, fig. 9).


def insight_of(summary: StressTestSummary, insight: Insight | int) -> Insight:
    """Return the insight, or the one with this number in the report, from 1.

    Raises:
        InvalidRequest: no insight has this number.
    """
    if isinstance(insight, Insight):
        return insight
    if not 1 <= insight <= len(summary.insights):
        raise InvalidRequest(f"run {summary.run_id} has no insight {insight}: it has {len(summary.insights)}")
    return summary.insights[insight - 1]


def needs_example(insight: Insight) -> bool:
    """Whether the insight leaves words open, which its example item must provide."""
    return not insight.removed or not insight.added or _GAP in insight.removed + insight.added


def insight_request(
    summary: StressTestSummary,
    insight: Insight,
    example: Item | None,
    seed: int | None,
    functions_named: Callable[[Sequence[str]], dict[str, str]] = lambda names: {},
) -> StressTestCreate:
    """Build the request for a stress test that makes this edit alone.

    Args:
        summary: the run's summary, which holds the insight.
        insight: the edit to apply.
        example: the insight's example item, where `needs_example`.
        seed: default: the run's seed plus one.
        functions_named: finds the addresses of the classifiers that are functions.

    Raises:
        InvalidRequest: the words cannot be read from the example.
    """
    if not needs_example(insight):
        chosen = Intervention(removed=insight.removed, added=insight.added)
    elif example is None or example.result is None or example.result.edited_caption is None:
        raise InvalidRequest(
            f"the insight leaves words open, and its example {insight.example_item!r} has no edited caption"
        )
    else:
        chosen = _change(example.result.caption, example.result.edited_caption)
    request = summary.config["request"]
    functions = functions_named(request["classifiers"])
    return StressTestCreate.model_validate(
        {name: request[name] for name in _KEPT if name in request}
        | {
            "interventions": [chosen.model_dump()],
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
            **({"functions": functions} if functions else {}),
            "seed": (summary.seed + 1) % _SEEDS if seed is None else seed,
        }
    )


def _change(caption: str, edited: str) -> Intervention:
    """Return the one phrase in which two captions differ.

    A single added word is anchored to the word that follows it; more added words are appended.
    """
    old, new = words(caption), words(edited)
    before, after = [word.key for word in old], [word.key for word in new]
    first = _same(before, after)
    last = _same(before[first:][::-1], after[first:][::-1])
    removed, added = old[first : len(old) - last], new[first : len(new) - last]
    unchanged = {word.key for word in removed} & {word.key for word in added}
    if len(unchanged) > _MOST_UNCHANGED:
        raise InvalidRequest(
            f"the example changes {caption!r} to {edited!r} in several places: choose one change and pass it "
            "as an intervention"
        )
    if not removed and len(added) == 1 and last:
        removed, added = old[first : first + 1], new[first : first + 2]
    return Intervention(
        removed=caption[removed[0].start : removed[-1].end].lower() if removed else "",
        added=edited[added[0].start : added[-1].end].lower() if added else "",
    )


def _same(one: list[str], other: list[str]) -> int:
    """Count the words before the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
