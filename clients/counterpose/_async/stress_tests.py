"""``client.stress_tests``, and a stress test by its id: its findings can be proven and applied."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from counterpose._applied_findings import application_request, example_change, told_change
from counterpose._async.datasets import AsyncDatasets
from counterpose._async.listings import AsyncServices
from counterpose._async.run_handle import AsyncExportedRun
from counterpose._async.run_resource import AsyncRunResource
from counterpose._calls import Call, idempotency_headers, reading
from counterpose._editor_comparison import (
    EditorComparison,
    RunOfPreset,
    compared,
    comparison_key,
    distinct_presets,
    refs_of,
    weights_of,
)
from counterpose._exports import ExportLayout
from counterpose._files import save_page
from counterpose._frames import data_frame
from counterpose._notebook import Findings
from counterpose._options import (
    AnyThresholds,
    StressTestOptions,
    chosen,
    label_map_of,
    spells_out,
    thresholds_of,
)
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import FIGURES_TIMEOUT_S, Params, RunCalls, listed
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.interventions import interventions_of
from counterpose_core.contract.judges import Calibration, calibrations
from counterpose_core.contract.proofs import FindingHistory, ProofCreate
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_estimates import StressTestEstimate, StressTestQuestion
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.contract.stress_tests import StressTestCreate, StressTestSummary
from counterpose_core.types import EDIT_TYPES


class AsyncStressTest(AsyncExportedRun[Item, StressTestSummary]):
    """A stress test, followed by awaitable calls."""

    _calls = RunCalls("stress-test", Item, StressTestSummary)

    async def summary(self, *, thresholds: AnyThresholds | None = None) -> StressTestSummary:
        """Return the summary: each figure with its interval and n.

        Args:
            thresholds: judge the recorded scores by these, cosines from -1 to 1 by the names in `Thresholds`;
                those left out are the run's own. No image is made; `StressTestSummary.judged_again` counts
                what cannot be judged so.

        Raises:
            InvalidRequest: a threshold is unknown or out of range, or the run proves a finding of another.
        """
        return await self._sender.send(self._calls.summary(self.id, _judged_by(thresholds)))

    async def report(self, *, thresholds: AnyThresholds | None = None) -> str:
        """Return the report as one HTML file; ``thresholds`` as in `summary`."""
        return await self._sender.send(self._calls.report(self.id, _judged_by(thresholds)))

    async def save_report(self, path: str | Path, *, thresholds: AnyThresholds | None = None) -> Path:
        """Write the report to a file, as `AsyncRunHandle.save_report`; ``thresholds`` as in `summary`."""
        return save_page(Path(path), await self.report(thresholds=thresholds))

    async def export(
        self,
        folder: str | Path,
        *,
        layout: ExportLayout = "imagefolder",
        dropped: bool = False,
        thresholds: AnyThresholds | None = None,
    ) -> Path:
        """Write the kept images to a new ``folder``, as `AsyncExportedRun.export`.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.
            thresholds: as in `summary`; they decide what was kept.
        """
        return await self._exported(folder, layout, _judged_by(thresholds), dropped=dropped)

    async def finding(self, finding: Finding | int) -> FindingHistory:
        """Return a finding as this run and all runs that prove it tell it together.

        Args:
            finding: one of the run's findings, or its number from 1.

        Raises:
            NotFound: the run has no such finding.
        """
        call = self._calls.read(self.id, f"/findings/{_number(finding)}", FindingHistory)
        return await self._sender.send(call)

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
        call = _proving(self._sender, self.id, finding, images, dataset, seed, classifier, idempotency_key)
        return AsyncStressTest(self._sender, await self._sender.send(call))

    async def calibrate_judges(self, labels: Mapping[str, bool], *, against: str) -> dict[str, Calibration]:
        """Return how each judge agrees with labels that people gave, for a suite's ``calibrations``.

        Args:
            labels: whether an edit is right, by the item's id.
            against: whose labels they are, such as ``"ratings of two people"``.

        Raises:
            InvalidRequest: there are no labels, or the run has no verdict on one of the items.
        """
        judgements = {}
        async for item in self.results():
            if item.result is not None:
                judgements[item.id] = item.result.judgements
        config = self.run.resolved_config
        gate = GateThresholds.model_validate(config["gate"])
        return calibrations(judgements, labels, against, gate, config.get("judged_by", {}))

    async def findings(self) -> Findings:
        """Return the changes that cost a classifier its answers, the surest first."""
        summary = await self.summary()
        return Findings(summary.findings)

    async def findings_to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per finding; raises as `to_pandas`."""
        return data_frame(await self.findings())

    async def apply(
        self, finding: Finding | int, *, dataset: str | None = None, seed: int | None = None
    ) -> AsyncStressTest:
        """Start a stress test that applies one finding's edit, and no other, to every image of a dataset.

        Of several wordings, the one that most of the finding's images were edited by is applied; of an
        operation, all levels of the run, and where the finding is of one class, to its images alone.

        Args:
            finding: one of the run's findings, or its number from 1, as for `prove`.
            dataset: default: the run's dataset.
            seed: default: the run's seed plus one.

        A classifier ``py:...`` must still be served by this client.

        Raises:
            NotFound: the run has no such finding.
            InvalidRequest: the finding's words cannot be read from its example, or the dataset lacks its
                class.
        """
        history = await self.finding(finding)
        request = self.run.resolved_config["request"]
        if dataset is not None:
            # Names to leave out are of the images of the run's own dataset.
            request = {**request, "dataset": dataset, "exclude": []}
        is_operation = history.told.edit_type not in EDIT_TYPES
        change = history.told if is_operation else told_change(history.told)
        if change is None:
            example = self._calls.one_item(history.run_id, history.told.pairs[0].edit)
            change = example_change(history.told, await self._sender.send(example))
        classes: list[str] = []
        if is_operation:
            classes = (await AsyncDatasets(self._sender).get(request["dataset"])).classes
        body = application_request(self.id, request, change, seed, self._sender.functions_named, classes)
        return AsyncStressTest(self._sender, await self._sender.send(self._calls.create(body, None)))


class AsyncStressTests(AsyncRunResource[AsyncStressTest]):
    """``/v1/stress-tests``."""

    _handle = AsyncStressTest

    @spells_out(StressTestCreate, StressTestOptions)
    async def create(
        self,
        *,
        dataset: str,
        classifiers: Sequence[AnyClassifier],
        seed: int = 0,
        idempotency_key: str | None = None,
        **options: Unpack[StressTestOptions],
    ) -> AsyncStressTest:
        """Start a stress test; it continues whether or not you wait for it.

        Args:
            dataset: the dataset's name.
            classifiers: what to test; callables are served while this client is open.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
            options: those of `StressTestOptions`.

        Raises:
            InvalidRequest: an argument is out of range, or an intervention cannot be parsed.
        """
        return await self._create(self._request(dataset, classifiers, seed, options), idempotency_key)

    def _request(
        self, dataset: str, classifiers: Sequence[AnyClassifier], seed: int, options: Mapping[str, Any]
    ) -> StressTestCreate:
        settings = chosen(options, StressTestOptions)
        if "interventions" in settings:
            settings["interventions"] = interventions_of(settings["interventions"])
        fields = {"dataset": dataset, **self._named(classifiers, specs=True), **settings, "seed": seed}
        return checked(StressTestCreate, fields)

    async def compare_editors(
        self,
        *,
        dataset: str,
        classifiers: Sequence[AnyClassifier],
        presets: Sequence[str],
        seed: int = 0,
        started: Callable[[AsyncStressTest], None] | None = None,
        taken_up: Callable[[AsyncStressTest], None] | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> EditorComparison:
        """Compare presets of the suite's editor on the same images and edits: a stress test for each.

        The requests of all are checked first. A call with the arguments, images and weights of an earlier one
        takes up its runs, and resumes those that failed or were cancelled; another seed begins anew, and so
        does a function of the caller's program, whose address is another each time.

        Args:
            dataset: the dataset's name.
            classifiers: as in `create`; what they answer has no part in the comparison.
            presets: at least two.
            seed: of the runs, and of the comparison's bootstrap.
            started: called with each run when it has been created.
            taken_up: called with each run of an earlier call, before it is resumed.
            progress: show how far each run is.
            settings: the other arguments of `create`; nothing is confirmed, and all images are measured.

        Raises:
            InvalidRequest: an argument is out of range, or there are not two presets of the suite.
            CounterposeError: a request is refused, or a run failed.
        """
        # The random baseline has no part in it.
        fixed = {"lance_r_edits_per_image": 0} | settings | {"confirm": False, "preservation": "all"}
        services = await AsyncServices(self._sender).list()
        requests = {
            preset: self._request(dataset, classifiers, seed, fixed | {"preset": preset})
            for preset in distinct_presets(presets, services.presets)
        }
        for preset in requests:
            # No model looks at images: those outside the suite stop the run early.
            free = {"preset": preset, "seed": seed, "outside_suite": "continue"}
            await self.estimate(dataset=dataset, **(fixed | free))
        inputs = (await AsyncDatasets(self._sender).get(dataset)).digest + weights_of(services)
        handles = await self._begin_all(requests, inputs, started, taken_up)
        ended = []
        for preset, handle in handles.items():
            await handle.wait(progress=progress)
            items = [item async for item in handle.items()]
            summary = await handle.summary()
            ended.append(RunOfPreset(preset=preset, run=handle.run, summary=summary, items=items))
        comparison = compared(ended, seed)
        images = {ref: b64encode(await handle.image(ref)).decode() for ref in refs_of(comparison)}
        return comparison.model_copy(update={"images": images})

    async def _begin_all(
        self,
        requests: Mapping[str, StressTestCreate],
        inputs: str,
        started: Callable[[AsyncStressTest], None] | None,
        taken_up: Callable[[AsyncStressTest], None] | None,
    ) -> dict[str, AsyncStressTest]:
        """Create the run of each preset, or take up that of an equal comparison of the same ``inputs``."""
        earlier = (await self._sender.send(listed(self._handle._calls.kind, None, limit=1))).runs
        handles = {}
        for preset, request in requests.items():
            handle = handles[preset] = await self._create(request, comparison_key(request, inputs))
            # Both times are the gateway's.
            is_new = not earlier or handle.run.created_at > earlier[0].created_at
            if (tell := started if is_new else taken_up) is not None:
                tell(handle)
            if handle.run.state == "cancelling":
                await handle.wait(check=False)
            if handle.run.state in ("failed", "cancelled"):
                await handle.resume()
        return handles

    async def estimate(
        self, *, dataset: str, classifiers: Sequence[AnyClassifier] = (), **settings: Any
    ) -> StressTestEstimate:
        """Say what such a stress test would take and could prove, or refuse it; nothing is created.

        Args:
            dataset: the dataset's name.
            classifiers: as in `create`; each is tried on an image, and the figures do not depend on them.
            settings: the other arguments of `create`.

        Raises:
            InvalidRequest: an argument is out of range, or unknown.
            ImagesOutsideSuite: the run would stop after its first images.
            CounterposeError: as the run would be refused.
        """
        given = settings | {"dataset": dataset}
        for name, read in (("interventions", interventions_of), ("label_map", label_map_of)):
            if given.get(name) is not None:
                given[name] = read(given[name])
        return await self._estimate(StressTestQuestion, StressTestEstimate, classifiers, given)

    async def prove(
        self,
        run_id: str,
        *,
        finding: Finding | int,
        images: int = 20,
        dataset: str | None = None,
        seed: int | None = None,
        classifier: AnyClassifier | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncStressTest:
        """Start a child run that makes more pairs for one finding of a run; as `AsyncStressTest.prove`."""
        call = _proving(self._sender, run_id, finding, images, dataset, seed, classifier, idempotency_key)
        return await self._take(call)

    async def apply(
        self, run_id: str, finding: Finding | int, *, dataset: str | None = None, seed: int | None = None
    ) -> AsyncStressTest:
        """Apply a finding of a run to its whole dataset, or to another; as `AsyncStressTest.apply`."""
        run = await self.get(run_id)
        return await run.apply(finding, dataset=dataset, seed=seed)


def _proving(
    sender: AsyncSender,
    run_id: str,
    finding: Finding | int,
    images: int,
    dataset: str | None,
    seed: int | None,
    classifier: AnyClassifier | None,
    key: str | None,
) -> Call[Run]:
    """``POST /v1/runs/{id}/findings/{number}/prove``; the key makes it safe to send again."""
    functions = None
    if classifier is not None:
        functions = sender.name_functions(sender.serve_functions([classifier])).functions or None
    fields = {"images": images, "dataset": dataset, "seed": seed, "functions": functions}
    # The gateway sums the run up first.
    return Call(
        "POST",
        AsyncStressTest._calls.path(run_id, f"/findings/{_number(finding)}/prove"),
        reading(Run),
        body=checked(ProofCreate, {name: value for name, value in fields.items() if value is not None}),
        headers=idempotency_headers(key),
        timeout=FIGURES_TIMEOUT_S,
    )


def _number(finding: Finding | int) -> int:
    return finding.number if isinstance(finding, Finding) else finding


def _judged_by(thresholds: AnyThresholds | None) -> Params:
    given = {} if thresholds is None else thresholds_of(thresholds).given()
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
