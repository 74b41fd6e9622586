"""``client.services``: the services and whether each is ready."""

from __future__ import annotations

from faultline._calls import Call, reading
from faultline.resources._lists import AsyncListing, Listing
from faultline_core.contract.services import ServiceList

LIST: Call[ServiceList] = Call(method="GET", path="/v1/services", parse=reading(ServiceList))


class Services(Listing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = LIST


class AsyncServices(AsyncListing[ServiceList]):
    """``/v1/services``: the services and whether each is ready."""

    _call = LIST
