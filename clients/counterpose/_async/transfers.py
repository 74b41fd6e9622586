"""``client.transfers``: show images that fool some classifiers to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpose._async.run_handle import AsyncRunHandle
from counterpose._async.run_resource import AsyncRunResource
from counterpose._options import LabelMap, label_map_of
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.transfers import TransferCreate, TransferItem, TransferSummary


class AsyncTransfer(AsyncRunHandle[TransferItem, TransferSummary]):
    """A transfer, followed by awaitable calls."""

    _calls = RunCalls("transfer", TransferItem, TransferSummary)


class AsyncTransfers(AsyncRunResource[AsyncTransfer]):
    """``/v1/transfers``."""

    _handle = AsyncTransfer

    async def create(
        self,
        *,
        source: str,
        classifiers: Sequence[AnyClassifier],
        label_map: LabelMap | None = None,
        criterion: Criterion | Mapping[str, Any] | None = None,
        images: int = 2000,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> AsyncTransfer:
        """Start a transfer.

        Args:
            source: id of the ended adversarial dataset or bug hunt whose images are shown.
            classifiers: whom they are shown to; callables are served while this client is open.
            label_map: as of a bug hunt; default: the source's.
            criterion: what counts as a failure; default: the source's.
            images: most images of each classifier of the source, and of the labels alone.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
        """
        fields = {
            "source": source,
            "label_map": label_map_of(label_map),
            "criterion": criterion,
            "images": images,
            "seed": seed,
        }
        body = checked(TransferCreate, self._named(classifiers) | fields)
        return await self._create(body, idempotency_key)
