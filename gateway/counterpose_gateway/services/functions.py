"""The classifiers' port of one run, with what its caller said of them: own functions, and a label map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
)
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_gateway.services.ports import Classifiers, Services

NO_LABEL_MAP: Mapping[str, list[str]] = {}


class RunClassifiers:
    """Adds a function's address to the requests that name it, and the label map to those that classify.

    So methods know only names. A function precedes a classifier of the suite that has its name.
    """

    def __init__(
        self, port: Classifiers, functions: Mapping[str, str], label_map: Mapping[str, list[str]]
    ) -> None:
        self._port, self._functions, self._label_map = port, functions, label_map

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunClassifiers) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._functions.items())))

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""
        address = self._functions.get(request.classifier)
        told = {"function": address, "label_map": request.label_map or dict(self._label_map)}
        return await self._port.classify(request.model_copy(update=told))

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe a classifier, whether listed or not."""
        address = self._functions.get(request.classifier)
        return await self._port.describe(request.model_copy(update={"function": address}))

    async def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """Measure what the order of the labels does to a model that chats; a function does not."""
        return await self._port.order_effect(request)

    async def list_classifiers(self) -> ClassifierList:
        """Name the classifiers that this run can test."""
        listed = (await self._port.list_classifiers()).classifiers
        own = [await self.describe(DescribeRequest(classifier=name)) for name in self._functions]
        return ClassifierList(classifiers=[*(one for one in listed if one.spec not in self._functions), *own])


def with_functions(
    services: Services, functions: Mapping[str, str], label_map: Mapping[str, list[str]] = NO_LABEL_MAP
) -> Services:
    """Return the services of a run with these functions, each an address by its name, and its label map."""
    if not functions and not label_map:
        return services
    return replace(services, classifiers=RunClassifiers(services.classifiers, functions, label_map))
