"""The classifiers' port of one run, some of whose classifiers are functions of its caller's program."""

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
from counterpose_gateway.services.ports import Classifiers, Services


class FunctionClassifiers:
    """Adds each function's address to the requests that name it, so that methods know only its name.

    A function precedes a classifier of the suite that has its name.
    """

    def __init__(self, port: Classifiers, functions: Mapping[str, str]) -> None:
        self._port, self._functions = port, functions

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""
        address = self._functions.get(request.classifier)
        return await self._port.classify(request.model_copy(update={"function": address}))

    async def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe a classifier, whether listed or not."""
        address = self._functions.get(request.classifier)
        return await self._port.describe(request.model_copy(update={"function": address}))

    async def list_classifiers(self) -> ClassifierList:
        """Name the classifiers that this run can test."""
        listed = (await self._port.list_classifiers()).classifiers
        own = [await self.describe(DescribeRequest(classifier=name)) for name in self._functions]
        return ClassifierList(classifiers=[*(one for one in listed if one.spec not in self._functions), *own])


def with_functions(services: Services, functions: Mapping[str, str]) -> Services:
    """Return the services of a run with these functions, each an address by its name."""
    if not functions:
        return services
    return replace(services, classifiers=FunctionClassifiers(services.classifiers, functions))
