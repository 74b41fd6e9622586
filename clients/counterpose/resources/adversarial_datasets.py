"""``client.adversarial_datasets``: generate many images that classifiers get wrong, and keep those."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Unpack

from counterpose._adversarial_dataset_run import (
    ADVERSARIAL_DATASETS,
    AdversarialDataset,
    AsyncAdversarialDataset,
)
from counterpose._options import LabelImageOptions, chosen, spells_out
from counterpose._python_function.model import AnyClassifier
from counterpose.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from counterpose_core.contract.adversarial_datasets import AdversarialDatasetCreate, FoolingRule


class AdversarialOptions(LabelImageOptions, total=False):
    """Options of an adversarial dataset.

    fools: keep images that fool ``"any"`` of the classifiers, or ``"all"``.
    captions: most captions that are generated from.
    sentences: how many first sentences of a caption are used.
    samples: most images of each caption.
    most_kept: most images of a caption that are kept.
    images: most images in all, those of the labels alone included.
    baseline: images of each label alone.
    near_duplicates: CLIP's cosine from which an image repeats another; None keeps repetitions.
    reference: name of a dataset of real images, to measure how far the kept ones are from them.
    reference_images: most of its images that are compared.
    """

    fools: FoolingRule
    captions: int
    sentences: int
    samples: int
    most_kept: int
    images: int
    baseline: int
    near_duplicates: float | None
    reference: str | None
    reference_images: int


class _Creating(RunVerbs[H]):
    """How an adversarial dataset is requested."""

    _calls = ADVERSARIAL_DATASETS

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
    ) -> H:
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
        body = AdversarialDatasetCreate.model_validate(
            {**self._named(classifiers), **settings, "seeds": seeds, "seed": seed}
        )
        return self._take(ADVERSARIAL_DATASETS.create(body, idempotency_key))


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


class AdversarialDatasets(_Creating[AdversarialDataset], RunResource[AdversarialDataset]):
    """``/v1/adversarial-datasets``."""

    _handle = AdversarialDataset


class AsyncAdversarialDatasets(
    _Creating[Coroutine[Any, Any, AsyncAdversarialDataset]], AsyncRunResource[AsyncAdversarialDataset]
):
    """``/v1/adversarial-datasets``."""

    _handle = AsyncAdversarialDataset
