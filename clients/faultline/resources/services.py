"""``client.services``: the five services as the gateway sees them."""

from __future__ import annotations

from faultline._calls import Call, reading
from faultline._sending import AsyncSender, Sender
from faultline_core.contract.services import ServiceList

LIST: Call[ServiceList] = Call(method="GET", path="/v1/services", parse=reading(ServiceList))


class Services:
    """``/v1/services``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> ServiceList:
        """Name the services and say which are ready."""
        return self._sender.send(LIST)


class AsyncServices:
    """``/v1/services``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(self) -> ServiceList:
        """Name the services and say which are ready."""
        return await self._sender.send(LIST)
