"""An adversarial dataset by its id: a run that generates images which classifiers get wrong."""

from __future__ import annotations

from counterpose._calls import Call, reading
from counterpose._exported_runs import AsyncExportedRun, ExportedRun
from counterpose._run_calls import RunCalls
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialItem, DatasetRegistration
from counterpose_core.contract.datasets import Dataset

ADVERSARIAL_DATASETS = RunCalls("adversarial-dataset", AdversarialItem, AdversarialDatasetSummary)


def register_call(run_id: str, name: str) -> Call[Dataset]:
    """``POST /v1/adversarial-datasets/{id}:register``; sending it again changes nothing."""
    return Call(
        method="POST",
        path=ADVERSARIAL_DATASETS.path(run_id, ":register"),
        body=DatasetRegistration(name=name),
        parse=reading(Dataset),
    )


class AdversarialDataset(ExportedRun[AdversarialItem, AdversarialDatasetSummary]):
    """An adversarial dataset, followed by blocking calls."""

    _calls = ADVERSARIAL_DATASETS

    def register(self, name: str) -> Dataset:
        """Make a dataset of the kept images, which other methods take by this name.

        Raises:
            DatasetEmpty: no image was kept.
            InvalidRequest: a dataset of this name has other classes.
        """
        return self._sender.send(register_call(self.id, name))


class AsyncAdversarialDataset(AsyncExportedRun[AdversarialItem, AdversarialDatasetSummary]):
    """An adversarial dataset, followed by awaitable calls."""

    _calls = ADVERSARIAL_DATASETS

    async def register(self, name: str) -> Dataset:
        """Make a dataset of the kept images; as `AdversarialDataset.register`."""
        return await self._sender.send(register_call(self.id, name))
