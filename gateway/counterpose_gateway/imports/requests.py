"""Begin an import: all that can be refused is refused before a worker looks at the address."""

from __future__ import annotations

import time

from counterpose_core.contract.datasets import Dataset, ImportCreate
from counterpose_gateway.images.intake import checked_classes
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports.addresses import AllowedAddresses, layout_of, with_revision
from counterpose_gateway.ledger import Ledger


def begin_import(
    name: str, request: ImportCreate, ledger: Ledger, allowed: AllowedAddresses, quotas: Quotas
) -> Dataset:
    """Make the dataset if there is none, and let workers import into it; they alone read the address.

    Raises:
        ImportRefused: the address is not allowed.
        InvalidRequest: a field is wrong, or the dataset has images or another import.
        ClassMapMismatch: two class names look alike.
        QuotaExceeded: there are too many datasets.
    """
    allowed.require(with_revision(request.url, request.revision))
    classes = checked_classes(request.classes)
    if request.classes is not None or not ledger.datasets.has(name):
        ends = quotas.end_of_dataset(None, time.time())
        ledger.datasets.create(name, classes, quotas.check_datasets, expires_at=ends)
    ledger.imports.create(name, request, layout_of(request), classes)
    return ledger.datasets.get(name)
