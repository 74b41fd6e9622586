"""The classifiers as models of the Open Inference Protocol v2: images in, probabilities out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifierTrait,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.errors import UnknownModel
from counterpose_services.open_inference.images import IMAGES, held, values_of
from counterpose_services.open_inference.requests import ModelMetadata
from counterpose_services.open_inference.tensors import InputTensor, OutputTensor, TensorSpec

PROBABILITIES, LABELS = "probabilities", "labels"
TRAITS: tuple[ClassifierTrait, ...] = ("architecture", "training", "parameters")
Classify = Callable[[str, list[str]], Awaitable[ClassifyResponse]]
Describe = Callable[[DescribeRequest], Awaitable[ClassifierDescription]]


class ClassifierModels:
    """Each classifier with classes of its own, under its name in the list or what `classifier` takes."""

    def __init__(
        self,
        *,
        classify: Classify,
        describe: Describe,
        list_classifiers: Callable[[], Awaitable[ClassifierList]],
        store: Callable[[], BlobStore],
    ) -> None:
        self._classify, self._describe, self._list, self._store = classify, describe, list_classifiers, store

    async def describe(self, name: str) -> ModelMetadata:
        """Return a classifier's metadata.

        Raises:
            UnknownModel: there is none of this name, or its classes come from the dataset.
        """
        found, classes = await self._found(name)
        given = {trait: found.trait(trait) for trait in TRAITS}
        return ModelMetadata(
            name=name,
            platform="counterpose",
            inputs=[IMAGES],
            outputs=[
                TensorSpec(
                    name=PROBABILITIES,
                    datatype="FP32",
                    shape=[-1, len(classes)],
                    parameters={"labels": classes},
                ),
                TensorSpec(name=LABELS, datatype="BYTES", shape=[-1]),
            ],
            parameters={"labels": classes} | {trait: value for trait, value in given.items() if value},
        )

    async def infer(self, name: str, inputs: Mapping[str, InputTensor]) -> Sequence[OutputTensor]:
        """Return each image's probabilities and its most probable class."""
        found, classes = await self._found(name)
        refs = await asyncio.to_thread(held, self._store(), inputs[IMAGES.name])
        answer = await self._classify(found.spec, refs)
        rows = [prediction.probabilities for prediction in values_of(answer.outcomes)]
        labels = [classes[int(np.argmax(row))] for row in rows]
        return [
            OutputTensor(PROBABILITIES, np.asarray(rows, dtype=np.float32)),
            OutputTensor(LABELS, labels),
        ]

    async def _found(self, name: str) -> tuple[ClassifierDescription, list[str]]:
        found = await self._described(name)
        if found.classes is None:
            raise UnknownModel(
                f"{name!r} has no classes of its own: they come with the dataset, which this protocol "
                "cannot name; call /v1/classify"
            )
        return found, found.classes

    async def _described(self, name: str) -> ClassifierDescription:
        for one in (await self._list()).classifiers:
            if name in (one.name, one.spec):
                return one
        try:
            asked = DescribeRequest(classifier=name)
        except ValueError:
            raise UnknownModel(f"there is no model {name[:100]!r}") from None
        return await self._describe(asked)
