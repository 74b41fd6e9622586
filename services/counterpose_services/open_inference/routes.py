"""The paths of the Open Inference Protocol v2 on a service's HTTP application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Protocol

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from counterpose_core.errors import InvalidRequest, UnsupportedMedia
from counterpose_services.open_inference.errors import ErrorField
from counterpose_services.open_inference.requests import (
    BINARY,
    LENGTH_HEADER,
    ModelMetadata,
    read_request,
    require_outputs,
    select_inputs,
    write_answer,
)
from counterpose_services.open_inference.tensors import InputTensor, OutputTensor

MOST_BYTES = 64 * 2**20
"""Of a body: 64 images of 224 x 224 pixels are about 35 MB as JSON and 10 MB as binary tensors."""


class ServedModels(Protocol):
    """The models of one service, by name; an unknown name raises UnknownModel."""

    async def describe(self, name: str) -> ModelMetadata: ...

    async def infer(self, name: str, inputs: Mapping[str, InputTensor]) -> Sequence[OutputTensor]: ...


def serve_open_inference(app: FastAPI, server: str, models: ServedModels) -> None:
    """Answer the protocol's paths on ``app``: health, metadata and inference."""
    routes = _Routes(server, models)
    # A model's name may have a slash, which a path holds as it is after decoding: the longest first.
    for path, call in (
        ("/v2", routes.server),
        ("/v2/health/live", routes.live),
        ("/v2/health/ready", routes.ready),
        ("/v2/models/{name:path}/ready", routes.model_ready),
        ("/v2/models/{name:path}", routes.model),
    ):
        app.add_route(path, call, methods=["GET"], include_in_schema=False)
    app.add_route("/v2/models/{name:path}/infer", routes.infer, methods=["POST"], include_in_schema=False)
    app.add_middleware(ErrorField)


class _Routes:
    def __init__(self, server: str, models: ServedModels) -> None:
        self._server, self._models = server, models

    async def server(self, request: Request) -> Response:
        return JSONResponse(
            {"name": self._server, "version": metadata.version("counterpose"), "extensions": [BINARY]}
        )

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        return JSONResponse({"ready": True})

    async def model(self, request: Request) -> Response:
        found = await self._models.describe(request.path_params["name"])
        return JSONResponse(found.model_dump(mode="json"))

    async def model_ready(self, request: Request) -> Response:
        found = await self._models.describe(request.path_params["name"])
        return JSONResponse({"name": found.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        name = request.path_params["name"]
        described = await self._models.describe(name)
        body = await _bounded(request)
        # Sixty megabytes of JSON take a second, in which the loop must go on answering others.
        asked = await asyncio.to_thread(read_request, body, request.headers.get(LENGTH_HEADER))
        require_outputs(asked, described.outputs)
        outputs = await self._models.infer(name, select_inputs(asked, described.inputs))
        content, headers = await asyncio.to_thread(write_answer, asked, described, outputs)
        return Response(content, headers=dict(headers))


async def _bounded(request: Request) -> bytes:
    if (encoding := request.headers.get("content-encoding", "identity")) != "identity":
        raise UnsupportedMedia(f"the body is sent as {encoding[:100]!r}; send it without compression")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise InvalidRequest(
                f"the body has more than {MOST_BYTES} bytes; send fewer images in one request"
            )
    return bytes(body)
