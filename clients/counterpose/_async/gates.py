"""``client.gates``: does a candidate lose more under frozen counterfactuals than the incumbent does."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose._async.run_handle import AsyncRunHandle
from counterpose._async.run_resource import AsyncRunResource
from counterpose._calls import Call, reading
from counterpose._options import LabelMap, label_map_of
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import FIGURES_TIMEOUT_S, RunCalls
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.gates import (
    TOLERANCE,
    GateCreate,
    GateItem,
    GateSummary,
    RegressionSet,
    RegressionSetOf,
)


class AsyncGate(AsyncRunHandle[GateItem, GateSummary]):
    """A gate, followed by awaitable calls: it compares candidates with the incumbent."""

    _calls = RunCalls("gate", GateItem, GateSummary)


class AsyncGates(AsyncRunResource[AsyncGate]):
    """``/v1/gates``."""

    _handle = AsyncGate

    async def create(
        self,
        *,
        baseline: str | RegressionSet,
        classifiers: Sequence[AnyClassifier],
        incumbent: AnyClassifier | None = None,
        label_map: LabelMap | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> AsyncGate:
        """Start a gate.

        Args:
            baseline: id of the ended stress test or shift benchmark whose counterfactuals are the regression
                set, or what `freeze` returned: then other pairs are refused.
            classifiers: the candidates; callables are served while this client is open.
            incumbent: what they are compared with; default: the only classifier of the baseline.
            label_map: as of a stress test; default: the baseline's.
            tolerance: the regression that is allowed, as a fraction of the images.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
        """
        named = self._named([*classifiers, *([] if incumbent is None else [incumbent])])
        specs: list[str] = named["classifiers"]
        frozen = baseline if isinstance(baseline, RegressionSet) else None
        body = checked(
            GateCreate,
            {
                **named,
                "classifiers": specs[: len(classifiers)],
                "incumbent": None if incumbent is None else specs[-1],
                "baseline": baseline if frozen is None else frozen.baseline,
                "digest": None if frozen is None else frozen.digest,
                "label_map": label_map_of(label_map),
                "tolerance": tolerance,
                "seed": seed,
            },
        )
        return await self._create(body, idempotency_key)

    async def freeze(self, baseline: str) -> RegressionSet:
        """Return the pairs of an ended run by their digest, to be kept beside the code that is gated."""
        # It stores nothing.
        call = Call(
            "POST",
            "/v1/gates/freeze",
            reading(RegressionSet),
            body=RegressionSetOf(baseline=baseline),
            timeout=FIGURES_TIMEOUT_S,
        )
        return await self._sender.send(call)
