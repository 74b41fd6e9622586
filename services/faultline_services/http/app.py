"""The HTTP application that every service shares: health, guard, problem documents."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from faultline_core.contract.base import ServiceHealth
from faultline_http import ProblemMiddleware, install_error_handlers
from faultline_services.http.request_guard import HEALTH_PATH, RequestGuard
from faultline_services.settings import ServiceSettings


def service_app(title: str, settings: ServiceSettings, health: Callable[[], ServiceHealth]) -> FastAPI:
    """Return an application that answers ``/healthz`` and turns every error into problem+json."""
    # FastAPI's documentation pages load scripts from another host.
    app = FastAPI(title=f"Faultline {title}", docs_url=None, redoc_url=None)
    app.add_middleware(RequestGuard, settings=settings)
    # Serve's proxy appends the request id to each response; ours would make it two headers.
    app.add_middleware(ProblemMiddleware, server=f"the {title}", add_request_id=False)
    install_error_handlers(app)
    app.add_api_route(HEALTH_PATH, health, response_model=ServiceHealth)
    return app
