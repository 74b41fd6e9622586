"""``client.stress_tests``: run LANCE on a dataset and read the results."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from counterpose._options import chosen, spells_out
from counterpose._python_function.model import AnyClassifier
from counterpose._stress_test_run import STRESS_TESTS, AsyncStressTest, StressTest, prove_call, served
from counterpose.resources.estimates import E, EstimatedVerbs
from counterpose.resources.runs import AsyncRunResource, H, RunResource
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.interventions import Intervention, interventions_of
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import Insight, StressTestCreate
from counterpose_core.contract.suite_fit import OutsideSuite
from counterpose_core.types import EditType, Selection


class StressTestOptions(TypedDict, total=False):
    """Options of a stress test.

    edit_types: the kinds of edits to plan.
    max_edits_per_image: edits planned per image; 0 makes only the ``interventions``.
    interventions: your own edits. ``"husky=>schnauzer,poodle"`` replaces a word, once per word after the
        arrow; ``"=>in the snow"`` appends; ``"in the rain=>"`` removes.
    lance_r_edits_per_image: edits of the random baseline LANCE-R per image.
    preset: a preset of the suite; the suite's default when omitted.
    selection: ``"paper"`` compares the whole sweep, ``"released"`` the largest that passes.
    self_replace: the sweep, fractions of the steps from 0 to 1; default: the preset's.
    thresholds: of the gate and the text filters, by name, such as ``{"direction": 0.3}``; default: the
        suite's. Cosines from -1 to 1, but for ``closer``; `Thresholds` describes each.
    limit: use at most this many images.
    refused_words: words that no edit may add.
    exclude: images to skip, as ``"cat/3.png"``.
    confirm: test what seems to hurt on images that were kept for it; False edits every image once.
    confirm_share: the share of each class's images to keep.
    near_duplicates: take images of a class for one group if the cosine of their CLIP features is at least
        this; None groups only what the dataset names and equal images.
    outside_suite: ``"stop"`` a run whose first images are unlike those that the suite was trained on, or
        ``"continue"``.
    """

    edit_types: Sequence[EditType]
    max_edits_per_image: int
    interventions: Sequence[str | Intervention]
    lance_r_edits_per_image: int
    preset: str | None
    selection: Selection
    self_replace: Sequence[float] | None
    thresholds: Mapping[str, float | bool] | Thresholds
    limit: int | None
    refused_words: Sequence[str]
    exclude: Sequence[str]
    confirm: bool
    confirm_share: float
    near_duplicates: float | None
    outside_suite: OutsideSuite


class _Creating(EstimatedVerbs[H, E]):
    """How a stress test is requested."""

    _calls = STRESS_TESTS

    @spells_out(StressTestCreate, StressTestOptions)
    def create(
        self,
        *,
        dataset: str,
        classifiers: Sequence[AnyClassifier],
        seed: int,
        idempotency_key: str | None = None,
        **options: Unpack[StressTestOptions],
    ) -> H:
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
        settings = chosen(options, StressTestOptions)
        if "interventions" in settings:
            settings["interventions"] = interventions_of(settings["interventions"])
        body = StressTestCreate.model_validate(
            {"dataset": dataset, **self._named(classifiers), **settings, "seed": seed}
        )
        return self._take(STRESS_TESTS.create(body, idempotency_key))

    def estimate(self, *, dataset: str, classifiers: Sequence[AnyClassifier] = (), **settings: Any) -> E:
        """Say what such a stress test would take and what it could prove; nothing is created.

        Args:
            dataset: the dataset's name.
            classifiers: as in `create`; none is called, and the figures do not depend on them.
            settings: the other arguments of `create`.

        Raises:
            InvalidRequest: an argument is out of range, or unknown.
        """
        given = settings | {"dataset": dataset}
        return self._estimate(StressTestCreate, StressTestEstimate, classifiers, given)


class StressTests(_Creating[StressTest, StressTestEstimate], RunResource[StressTest]):
    """``/v1/stress-tests``."""

    _handle = StressTest

    def prove(
        self,
        run_id: str,
        *,
        finding: Finding | int,
        images: int = 20,
        dataset: str | None = None,
        seed: int | None = None,
        classifier: AnyClassifier | None = None,
        idempotency_key: str | None = None,
    ) -> StressTest:
        """Start a child run that makes more pairs for one finding of a run; as `StressTest.prove`."""
        functions = served(self._sender, classifier)
        return self._take(prove_call(run_id, finding, images, dataset, seed, idempotency_key, functions))

    def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Apply an insight of a run to its whole dataset; as `StressTest.apply`."""
        return self.get(run_id).apply(insight, seed=seed)


class AsyncStressTests(
    _Creating[Coroutine[Any, Any, AsyncStressTest], Coroutine[Any, Any, StressTestEstimate]],
    AsyncRunResource[AsyncStressTest],
):
    """``/v1/stress-tests``."""

    _handle = AsyncStressTest

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
        """Start a child run that makes more pairs for one finding of a run; as `StressTest.prove`."""
        functions = served(self._sender, classifier)
        call = prove_call(run_id, finding, images, dataset, seed, idempotency_key, functions)
        return await self._take(call)

    async def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Apply an insight of a run to its whole dataset, as `AsyncStressTest.apply`."""
        return await (await self.get(run_id)).apply(insight, seed=seed)
