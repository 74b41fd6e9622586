"""``client.classifiers``: the models that can be tested."""

from __future__ import annotations

from faultline._calls import Call, reading
from faultline._sending import AsyncSender, Sender
from faultline_core.contract.classifiers import ClassifierList

LIST: Call[ClassifierList] = Call(method="GET", path="/v1/classifiers", parse=reading(ClassifierList))


class Classifiers:
    """``/v1/classifiers``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> ClassifierList:
        """Name the classifiers that can be tested."""
        return self._sender.send(LIST)


class AsyncClassifiers:
    """``/v1/classifiers``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> ClassifierList:
        """Name the classifiers that can be tested."""
        return await self._sender.send(LIST)
