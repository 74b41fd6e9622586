"""The gateway's application: parts in, ASGI out."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from faultline_core.blobs import BlobStore
from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from faultline_core.suite import Suite
from faultline_gateway.benchmark_results import BenchmarkResults
from faultline_gateway.edge import Edge
from faultline_gateway.errors import install_error_handlers
from faultline_gateway.ledger import Ledger
from faultline_gateway.metrics import Metrics
from faultline_gateway.parts import GatewayParts, HealthReader
from faultline_gateway.ports import Services
from faultline_gateway.routes import ROUTERS
from faultline_gateway.settings import GatewaySettings
from faultline_gateway.summaries import Summaries
from faultline_gateway.version import VERSION

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
    """Put the gateway together; whoever calls this opened the parts and closes them."""
    metrics = Metrics()
    app = bare_app()
    # Outside the router, so that its own 404 and 405 carry an id and are counted too.
    app.add_middleware(Edge, settings=settings, metrics=metrics)
    app.state.parts = GatewayParts(
        settings=settings, ledger=ledger, store=store, services=services, suite=suite, health=health,
        metrics=metrics, summaries=Summaries(ledger, store), benchmarks=BenchmarkResults(ledger, store),
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
    install_error_handlers(app)
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
