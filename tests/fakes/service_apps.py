"""The services' real HTTP applications over the fake ports, without Ray: guard, deadlines, traces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from counterpose_core.contract.base import ServiceHealth
from counterpose_gateway.services.ports import Services
from counterpose_services.http import service_app
from counterpose_services.settings import SERVICES, ServiceSettings
from fakes.service_http import routes


class ServiceApps(httpx.AsyncBaseTransport):
    """Passes each call to the application of its service, the first part of its path."""

    def __init__(self, ports: Services, settings: ServiceSettings) -> None:
        self.apps: dict[str, FastAPI] = {}
        for name in SERVICES:
            app = service_app(name, settings, partial(ServiceHealth, service=name, ready=True))
            for path, (body, call) in routes(ports).items():
                if path.startswith(f"/{name}/"):
                    app.add_route(path.removeprefix(f"/{name}"), _answering(body, call), methods=["POST"])
            if name == "classifiers":
                app.add_route("/v1/classifiers", _listing(ports), methods=["GET"])
            self.apps[name] = app
        self._transports = {name: httpx.ASGITransport(app=app) for name, app in self.apps.items()}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass one call on."""
        name, path = request.url.path.lstrip("/").split("/", 1)
        request.url = request.url.copy_with(path=f"/{path}")
        return await self._transports[name].handle_async_request(request)


def _answering(
    body: type[BaseModel], call: Callable[[Any], Awaitable[BaseModel]]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        found = await call(body.model_validate_json(await request.body()))
        return Response(found.model_dump_json(), media_type="application/json")

    return answer


def _listing(ports: Services) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        found = await ports.classifiers.list_classifiers()
        return Response(found.model_dump_json(), media_type="application/json")

    return answer
