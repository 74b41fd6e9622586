"""The server of `serve`: uvicorn with our bounds on headers and without a line a request."""

from __future__ import annotations

import uvicorn
from fastapi import FastAPI

from faultline_gateway.http.connection import HeaderLimits, http_protocol
from faultline_gateway.settings import GatewaySettings

GRACE_SECONDS = 5
"""For which a server that stops waits for open requests; streams end at once."""


def server_of(app: FastAPI, settings: GatewaySettings) -> uvicorn.Server:
    """Return a server of an app of `create_app` where the settings say; its caller runs it."""
    # No access log, because it would contain the names of datasets and runs; metrics count requests.
    config = uvicorn.Config(
        app, host=settings.host, port=settings.port, timeout_graceful_shutdown=GRACE_SECONDS,
        access_log=False, server_header=False, log_config=None,
        forwarded_allow_ips=list(settings.trusted_proxies),
        http=http_protocol(
            HeaderLimits(settings.max_header_bytes, settings.max_headers), app.state.room
        ),
    )  # fmt: skip
    return uvicorn.Server(config)
