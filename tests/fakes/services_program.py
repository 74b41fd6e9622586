"""``python -m fakes.services_program STORE PORT PER_CLASS [SHOWN [SECONDS]]``: the five fake services on a
socket.

They know the images of a dataset with so many images of each class, and share the gateway's store. With a
folder ``SHOWN``, they are those of the hunted world and keep there what their images show: services that
follow killed ones know it, too. Each call then takes so many ``SECONDS``, none if that is left out. With an
empty ``SHOWN``, they are those of every other test.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from counterpose_core.blobs import BlobStore
from fakes.mortal_worker import deep_snow
from fakes.ports import fake_services
from fakes.service_http import served
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld


def application(store: str, per_class: int, shown: str | None = None, seconds: float = 0.0) -> Starlette:
    """Return the services as one application; each is under its name."""
    world = FakeWorld(store=SharedStore(BlobStore(store)))
    if shown is not None:
        world.shown = KeptShown(Path(shown))
    world.sources(per_class)
    handle = served(fake_services(world) if shown is None else deep_snow(world))

    async def health(request: Request) -> Response:
        return JSONResponse({"service": request.path_params["service"], "ready": True})

    async def answer(request: Request) -> Response:
        asked = httpx.Request(request.method, str(request.url), content=await request.body())
        found = handle(asked)
        await asyncio.sleep(seconds)
        told = found if isinstance(found, httpx.Response) else await found
        return Response(told.content, told.status_code, dict(told.headers))

    return Starlette(
        routes=[
            Route("/{service}/healthz", health),
            Route("/{path:path}", answer, methods=["GET", "POST"]),
        ]
    )


def main(store: str, port: str, per_class: str, shown: str = "", seconds: str = "0") -> None:
    """Serve until killed."""
    uvicorn.run(
        application(store, int(per_class), shown or None, float(seconds)),
        host="127.0.0.1",
        port=int(port),
        access_log=False,
        log_config=None,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
