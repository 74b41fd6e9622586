"""An adversarial dataset by its id: a run that generates images which classifiers get wrong."""

from __future__ import annotations

from faultline._exported_runs import AsyncExportedRun, ExportedRun
from faultline._run_calls import RunCalls
from faultline_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from faultline_core.contract.adversarial_datasets import AdversarialItem

ADVERSARIAL_DATASETS = RunCalls("adversarial-dataset", AdversarialItem, AdversarialDatasetSummary)


class AdversarialDataset(ExportedRun[AdversarialItem, AdversarialDatasetSummary]):
    """An adversarial dataset, followed by blocking calls."""

    _calls = ADVERSARIAL_DATASETS


class AsyncAdversarialDataset(AsyncExportedRun[AdversarialItem, AdversarialDatasetSummary]):
    """An adversarial dataset, followed by awaitable calls."""

    _calls = ADVERSARIAL_DATASETS
