"""The gateway's application: parts in, ASGI out."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from faultline_core.blobs import BlobStore
from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from faultline_core.suite import Suite
from faultline_gateway.http.edge import Edge
from faultline_gateway.http.field_rules import FIELD_RULES
from faultline_gateway.http.metrics import Metrics, ResponseCounter
from faultline_gateway.ledger import Ledger
from faultline_gateway.routes import ROUTERS
from faultline_gateway.routes.context import GatewayContext, HealthReader
from faultline_gateway.runs.cache import RunCache
from faultline_gateway.runs.summaries import KEPT
from faultline_gateway.services.ports import Services
from faultline_gateway.settings import GatewaySettings
from faultline_gateway.version import VERSION
from faultline_http import ProblemMiddleware, install_error_handlers

_SCHEMA_REF = "#/components/schemas/{model}"
_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What went wrong, as RFC 9457 problem details",
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _SCHEMA_REF.format(model="Problem")}}},
    }
}


def create_app(
    settings: GatewaySettings,
    *,
    ledger: Ledger,
    store: BlobStore,
    services: Services,
    suite: Suite,
    health: HealthReader,
) -> FastAPI:
    """Put the gateway together from parts that the caller opened and closes."""
    metrics = Metrics()
    app = bare_app()
    # The last one added is the outermost. All stand outside the router, whose own 404 and 405 they count too.
    app.add_middleware(Edge, settings=settings)
    app.add_middleware(ProblemMiddleware, server="the gateway")
    app.add_middleware(ResponseCounter, metrics=metrics)
    app.state.context = GatewayContext(
        settings=settings, ledger=ledger, store=store, services=services, suite=suite, health=health,
        metrics=metrics, cache=RunCache(KEPT), max_items_per_run=settings.max_items_per_run,
    )  # fmt: skip
    return app


def bare_app() -> FastAPI:
    """Return the routes without parts: enough to describe them."""
    # No pages of documentation: they load scripts from elsewhere. No redirects for slashes: a client that
    # follows one repeats its body at an address it never named.
    app = _Application(
        title="Faultline", version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    for router in ROUTERS:
        app.include_router(router, responses=_PROBLEM)
    install_error_handlers(app, FIELD_RULES)
    return app


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Describe the routes, and the problem document that each may answer."""
        document = super().openapi()
        # No route returns them by its annotation, so FastAPI does not find them by itself.
        for model in (Problem, FieldProblem):
            schema = model.model_json_schema(ref_template=_SCHEMA_REF)
            schema.pop("$defs", None)
            document["components"]["schemas"][model.__name__] = schema
        return document
