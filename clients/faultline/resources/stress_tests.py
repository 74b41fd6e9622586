"""``client.stress_tests``: run LANCE on a dataset and read what came of it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from faultline._stress_test_run import STRESS_TESTS, AsyncStressTest, StressTest
from faultline.resources._runs import AsyncRunResource, H, RunResource, Taking
from faultline_core.contract.interventions import Intervention, interventions_of
from faultline_core.contract.stress_tests import Insight, StressTestCreate
from faultline_core.types import EDIT_TYPES, EditType, Selection


class _Creating(Taking[H]):
    """How a stress test is asked for."""

    _calls = STRESS_TESTS

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
        return self._take(STRESS_TESTS.create(body, idempotency_key))


class StressTests(_Creating[StressTest], RunResource[StressTest]):
    """``/v1/stress-tests``."""

    _handle = StressTest

    def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> StressTest:
        """Apply an insight of a run to its whole dataset, as `StressTest.apply`."""
        return self.get(run_id).apply(insight, seed=seed)


class AsyncStressTests(_Creating[Coroutine[Any, Any, AsyncStressTest]], AsyncRunResource[AsyncStressTest]):
    """``/v1/stress-tests``."""

    _handle = AsyncStressTest

    async def apply(self, run_id: str, insight: Insight | int, *, seed: int | None = None) -> AsyncStressTest:
        """Apply an insight of a run to its whole dataset, as `AsyncStressTest.apply`."""
        return await (await self.get(run_id)).apply(insight, seed=seed)
