"""``client.adversarial_datasets``: generate many images that classifiers get wrong, and keep those."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from faultline._adversarial_dataset_run import (
    ADVERSARIAL_DATASETS,
    AdversarialDataset,
    AsyncAdversarialDataset,
)
from faultline._python_function.model import AnyClassifier
from faultline.resources.runs import AsyncRunResource, H, RunResource, RunVerbs
from faultline_core.contract.adversarial_datasets import AdversarialDatasetCreate, FoolingRule
from faultline_core.contract.failure_criteria import Criterion


class _Creating(RunVerbs[H]):
    """How an adversarial dataset is requested."""

    _calls = ADVERSARIAL_DATASETS

    def create(
        self,
        *,
        classifiers: Sequence[AnyClassifier],
        dataset: str | None = None,
        hunt: str | None = None,
        given: Sequence[tuple[str, str]] | None = None,
        seed_images: int = 200,
        mistaken: bool = True,
        fools: FoolingRule = "any",
        classes: Sequence[str] | None = None,
        parents: Mapping[str, str] | None = None,
        criterion: Criterion | Mapping[str, Any] | None = None,
        captions: int = 50,
        sentences: int = 2,
        samples: int = 64,
        most_kept: int = 10,
        images: int = 3000,
        baseline: int = 64,
        near_duplicates: float | None = 0.99,
        reference: str | None = None,
        reference_images: int = 500,
        prompt: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        scheduler: str | None = None,
        seed: int = 0,
        idempotency_key: str | None = None,
    ) -> H:
        """Start an adversarial dataset from one of ``dataset``, ``hunt`` and ``given``.

        Args:
            classifiers: what to fool; callables are served while this client is open.
            dataset: name of a dataset whose images are captioned.
            hunt: id of a bug hunt whose descriptions are generated from.
            given: pairs of a label and a caption of yours that names it.
            seed_images: most images of the dataset that are looked at.
            mistaken: caption only those that fool the classifiers.
            fools: keep images that fool ``"any"`` of the classifiers, or ``"all"``.
            classes: among which the classifiers choose; default: those that all of them have.
            parents: the parent of a class, for the prompt and the criterion ``no-relative``.
            criterion: what counts as a failure; default: the first answer is not the label.
            captions: most captions that are generated from.
            sentences: how many first sentences of a caption are used.
            samples: most images of each caption.
            most_kept: most images of a caption that are kept.
            images: most images in all, those of the labels alone included.
            baseline: images of each label alone.
            near_duplicates: CLIP's cosine from which an image repeats another; None keeps repetitions.
            reference: name of a dataset of real images, to measure how far the kept ones are from them.
            reference_images: most of its images that are compared.
            prompt: the prompt of the label alone, with ``<class>``; default: the suite's.
            steps: denoising steps; default: the suite's.
            guidance: guidance scale; default: the suite's.
            scheduler: diffusion scheduler; default: the suite's.
            seed: equal seeds give equal results.
            idempotency_key: makes a repeated call return the first run.

        Raises:
            ValueError: not exactly one of ``dataset``, ``hunt`` and ``given`` is named.
        """
        optional = {"criterion": criterion, "parents": parents}
        body = AdversarialDatasetCreate.model_validate(
            {
                **self._named(classifiers),
                **{name: value for name, value in optional.items() if value is not None},
                "seeds": _seeds(dataset, hunt, given, seed_images, mistaken),
                "fools": fools,
                "classes": None if classes is None else list(classes),
                "captions": captions,
                "sentences": sentences,
                "samples": samples,
                "most_kept": most_kept,
                "images": images,
                "baseline": baseline,
                "near_duplicates": near_duplicates,
                "reference": reference,
                "reference_images": reference_images,
                "prompt": prompt,
                "steps": steps,
                "guidance": guidance,
                "scheduler": scheduler,
                "seed": seed,
            }
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
