# Generated from clients/counterpose/_async/adversarial_datasets.py by clients/blocking_half.py; do not edit.
"""``client.adversarial_datasets``: generate many images that classifiers get wrong, and keep those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from counterpose._calls import Call, reading
from counterpose._options import AdversarialOptions, LabelImageOptions, chosen, spells_out
from counterpose._python_function.model import AnyClassifier
from counterpose._run_calls import RunCalls
from counterpose._sync.run_handle import ExportedRun
from counterpose._sync.run_resource import RunResource
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetCreate,
    AdversarialItem,
    DatasetRegistration,
)
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.field_errors import checked


class AdversarialDataset(ExportedRun[AdversarialItem, AdversarialDatasetSummary]):
    """An adversarial dataset, followed by blocking calls."""

    _calls = RunCalls("adversarial-dataset", AdversarialItem, AdversarialDatasetSummary)

    def register(self, name: str) -> Dataset:
        """Make a dataset of the kept images, which other methods take by this name.

        Raises:
            DatasetEmpty: no image was kept.
            InvalidRequest: a dataset of this name has other classes.
        """
        # Sending it again changes nothing.
        call = Call(
            "POST",
            self._calls.path(self.id, "/register"),
            reading(Dataset),
            body=DatasetRegistration(name=name),
        )
        return self._sender.send(call)


class AdversarialDatasets(RunResource[AdversarialDataset]):
    """``/v1/adversarial-datasets``."""

    _handle = AdversarialDataset

    @spells_out(AdversarialDatasetCreate, AdversarialOptions, LabelImageOptions)
    def create(
        self,
        *,
        classifiers: Sequence[AnyClassifier],
        dataset: str | None = None,
        hunt: str | None = None,
        given: Sequence[tuple[str, str]] | None = None,
        seed_images: int = 200,
        mistaken: bool = True,
        seed: int = 0,
        idempotency_key: str | None = None,
        **options: Unpack[AdversarialOptions],
    ) -> AdversarialDataset:
        """Start an adversarial dataset from one of ``dataset``, ``hunt`` and ``given``.

        Args:
            classifiers: what to fool; callables are served while this client is open.
            dataset: name of a dataset whose images are captioned.
            hunt: id of a bug hunt whose descriptions are generated from.
            given: pairs of a label and a caption of yours that names it.
            seed_images: most images of the dataset that are looked at.
            mistaken: caption only those that fool the classifiers.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.
            options: those of `AdversarialOptions`.

        Raises:
            ValueError: not exactly one of ``dataset``, ``hunt`` and ``given`` is named.
        """
        settings = chosen(options, AdversarialOptions)
        if "near_duplicates" in options:
            # Here None is a choice.
            settings["near_duplicates"] = options["near_duplicates"]
        seeds = _seeds(dataset, hunt, given, seed_images, mistaken)
        fields = self._named(classifiers) | settings | {"seeds": seeds, "seed": seed}
        return self._create(checked(AdversarialDatasetCreate, fields), idempotency_key)


def _seeds(
    dataset: str | None,
    hunt: str | None,
    given: Sequence[tuple[str, str]] | None,
    images: int,
    mistaken: bool,
) -> dict[str, Any]:
    if sum(each is not None for each in (dataset, hunt, given)) != 1:
        raise ValueError("name exactly one of dataset, hunt and given, where the captions come from")
    if dataset is not None:
        return {"kind": "dataset", "dataset": dataset, "images": images, "mistaken": mistaken}
    if hunt is not None:
        return {"kind": "bug-hunt", "run": hunt}
    return {"kind": "captions", "captions": [{"label": label, "text": text} for label, text in given or ()]}
