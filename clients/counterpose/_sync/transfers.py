# Generated from clients/counterpose/_async/transfers.py by clients/blocking_half.py; do not edit.
"""``client.transfers``: show images that fool some classifiers to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpose._options import LabelMap, label_map_of
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose._sync.run_handle import RunHandle
from counterpose._sync.run_resource import RunResource
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.transfers import TransferCreate, TransferItem, TransferSummary


class Transfer(RunHandle[TransferItem, TransferSummary]):
    """A transfer, followed by blocking calls."""

    _calls = RunCalls("transfer", TransferItem, TransferSummary)


class Transfers(RunResource[Transfer]):
    """``/v1/transfers``."""

    _handle = Transfer

    def create(
        self,
        *,
        source: str,
        classifiers: Sequence[AnyClassifier],
        label_map: LabelMap | None = None,
        criterion: Criterion | Mapping[str, Any] | None = None,
        images: int = 2000,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> Transfer:
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
        return self._create(body, idempotency_key)
