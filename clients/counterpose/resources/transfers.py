"""``client.transfers``: show images that fool some classifiers to others."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from counterpose._python_function.model import AnyClassifier
from counterpose._transfer_run import TRANSFERS, AsyncTransfer, Transfer
from counterpose.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.transfers import TransferCreate


class _Creating(RunVerbs[H]):
    """How a transfer is requested."""

    _calls = TRANSFERS

    def create(
        self,
        *,
        source: str,
        classifiers: Sequence[AnyClassifier],
        criterion: Criterion | Mapping[str, Any] | None = None,
        images: int = 2000,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> H:
        """Start a transfer.

        Args:
            source: id of the ended adversarial dataset or bug hunt whose images are shown.
            classifiers: whom they are shown to; callables are served while this client is open.
            criterion: what counts as a failure; default: the source's.
            images: most images of each classifier of the source, and of the labels alone.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
        """
        body = TransferCreate.model_validate(
            {
                **self._named(classifiers),
                "source": source,
                "criterion": criterion,
                "images": images,
                "seed": seed,
            }
        )
        return self._take(TRANSFERS.create(body, idempotency_key))


class Transfers(_Creating[Transfer], RunResource[Transfer]):
    """``/v1/transfers``."""

    _handle = Transfer


class AsyncTransfers(_Creating[Coroutine[Any, Any, AsyncTransfer]], AsyncRunResource[AsyncTransfer]):
    """``/v1/transfers``."""

    _handle = AsyncTransfer
