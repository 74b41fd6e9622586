"""The gateway's application, put together from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from counterpose_core.blobs import BlobStore
from counterpose_core.errors import QuotaExceeded, UnknownEditType
from counterpose_core.suite import Suite
from counterpose_core.text.word_policy import WordPolicy
from counterpose_core.tracing import Tracing
from counterpose_gateway.access.key_ring import KeyRing
from counterpose_gateway.http.accept import require_acceptable
from counterpose_gateway.http.answers import Answers
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.edge import Edge
from counterpose_gateway.http.in_flight import InFlight, Turns
from counterpose_gateway.http.metrics import Metrics, ResponseCounter, Traced
from counterpose_gateway.http.rate_limits import RateLimitFields
from counterpose_gateway.http.sessions import Sessions
from counterpose_gateway.http.signed_urls import SignedUrls
from counterpose_gateway.images.content_credentials import ContentCredentials
from counterpose_gateway.jobs.ray_cluster import Clusters
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.openapi.document import complete, operation_id
from counterpose_gateway.progress.following import FollowedRuns
from counterpose_gateway.progress.status import RunStatus
from counterpose_gateway.routes import ADMIN_ROUTERS, OF_BOTH, ROUTERS
from counterpose_gateway.routes.context import GatewayContext, HealthReader
from counterpose_gateway.routes.moved import moved
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.store.budget import StoreBudget
from counterpose_gateway.summaries.cache import RunCache
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.joined import JoinedWork
from counterpose_gateway.summaries.summaries import KEPT
from counterpose_gateway.ui import PAGES
from counterpose_gateway.ui.page_state import PageState
from counterpose_gateway.version import VERSION
from counterpose_http import ProblemMiddleware, install_error_handlers
from counterpose_http.exception_handlers import FieldError, FieldRule

QUOTAS = frozenset(
    ("body", field) for field in ("limit", "max_edits_per_image", "lance_r_edits_per_image", "n", "real")
)
"""Fields whose upper bound is how much a run may ask for."""


def _above_quota(error: FieldError) -> bool:
    return error["type"] == "less_than_equal" and error["loc"] in QUOTAS


def _unknown_edit_type(error: FieldError) -> bool:
    return error["type"] == "literal_error" and "edit_types" in error["loc"]


# The quota comes first: a request above it is answered so even if other fields are wrong.
FIELD_RULES = (FieldRule(QuotaExceeded, _above_quota), FieldRule(UnknownEditType, _unknown_edit_type))
"""Rejected fields whose error has a code of its own; only the gateway's bodies have quotas and edit types."""


DESCRIPTION = (
    "Counterfactual stress tests for image classifiers. Bodies are strict JSON: each key once, no value in "
    "place of one of another type, and integers without a fraction (7, not 7.0). Errors are problem "
    "documents; `x-problem-codes` lists the codes of an operation, and of answers that operations share."
)


def create_app(
    settings: GatewaySettings,
    *,
    ledger: Ledger,
    store: BlobStore,
    services: Services,
    suite: Suite,
    health: HealthReader,
    joined: JoinedWork | None = None,
    columns: ColumnFolder | None = None,
    budget: StoreBudget | None = None,
    clusters: Clusters | None = None,
    tracing: Tracing | None = None,
) -> FastAPI:
    """Put the gateway together from parts that the caller opened and closes.

    ``joined``: the processes that make summaries and reports; None makes them in threads of this process.
    ``columns``: where the columns of large runs are kept; None keeps none.
    ``budget``: what keeps the store's budget; None leaves that to another process.
    ``clusters``: the Ray clusters that jobs may run on; None for no cluster.
    ``tracing``: what makes spans of requests; None makes none.
    """
    metrics = Metrics()
    own_keys = [key.get_secret_value().encode() for key in settings.api_keys]
    sessions, ring = Sessions(own_keys), KeyRing(own_keys, ledger.access)
    links = SignedUrls(own_keys, ring)
    room = Room(settings, turned_away=metrics.count_refusal)
    app = bare_app(with_metrics=settings.admin_port is None)
    app.add_middleware(Traced, tracing=tracing or Tracing())
    # The last one added is the outermost. All enclose the router, so they also count its 404 and 405.
    app.add_middleware(Turns)
    app.add_middleware(InFlight, room=room)
    app.add_middleware(
        Edge, settings=settings, sessions=sessions, ring=ring, note=ledger.access.note, links=links, room=room
    )
    app.add_middleware(InFlight, room=room, counts=False)
    app.add_middleware(Answers, unread=room.unread)
    app.add_middleware(ProblemMiddleware, server="the gateway")
    app.add_middleware(RateLimitFields)
    app.add_middleware(ResponseCounter, metrics=metrics)
    app.state.pages = PageState()
    app.state.policy = policy = word_policy(settings)
    app.state.room = room
    pairs = {kind: method.pairs for kind, method in METHODS.items() if method.pairs is not None}
    app.state.context = GatewayContext(
        settings=settings, ledger=ledger, store=store, services=services, suite=suite, health=health,
        metrics=metrics, sessions=sessions, ring=ring, links=links, status=RunStatus(ledger),
        followed=FollowedRuns(ledger.events), cache=RunCache(KEPT), policy=policy,
        max_items_per_run=settings.max_items_per_run, functions_allowed=settings.functions_allowed,
        joined=joined, columns=columns, budget=budget, clusters=clusters or Clusters({}),
        pairs=pairs, room=room, credentials=content_credentials(settings),
    )  # fmt: skip
    return app


def content_credentials(settings: GatewaySettings) -> ContentCredentials | None:
    """Read the operator's certificate; without one, exported images are not signed."""
    if settings.c2pa_certificate is None or settings.c2pa_key_file is None:
        return None
    return ContentCredentials(settings.c2pa_certificate, settings.c2pa_key_file, settings.c2pa_algorithm)


def word_policy(settings: GatewaySettings) -> WordPolicy:
    """Read the operator's list of refused words; without a file, nothing is refused."""
    file = settings.policy_words_file
    return WordPolicy() if file is None else WordPolicy.read(file)


def create_admin_app(public: FastAPI, settings: GatewaySettings) -> FastAPI:
    """Return what operators ask, with the parts of the application that all others ask.

    It takes the keys of ``admin_keys`` and no others: what opens the API opens nothing here.
    """
    context: GatewayContext = public.state.context
    app = FastAPI(
        title="Counterpose for operators", version=VERSION, openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    for router in ADMIN_ROUTERS:
        app.include_router(router, dependencies=[Depends(require_acceptable)])
    install_error_handlers(app, FIELD_RULES)
    room = Room(settings, turned_away=context.metrics.count_refusal)
    own = settings.model_copy(update={"api_keys": settings.admin_keys})
    app.add_middleware(InFlight, room=room)
    app.add_middleware(Edge, settings=own, has_pages=False, room=room)
    app.add_middleware(InFlight, room=room, counts=False)
    app.add_middleware(ProblemMiddleware, server="the gateway")
    app.add_middleware(RateLimitFields)
    app.state.room, app.state.context = room, context
    return app


def bare_app(*, with_metrics: bool = True) -> FastAPI:
    """Return an application with the routes but without the parts; it can only describe itself."""
    # No documentation pages, because they load scripts from other hosts. No redirects for slashes, because
    # a client that follows one sends its body again, to an address that it did not choose.
    app = _Application(
        title="Counterpose", description=DESCRIPTION, version=VERSION, docs_url=None, redoc_url=None,
        redirect_slashes=False, separate_input_output_schemas=False, routes=[*_routes(with_metrics)],
    )  # fmt: skip
    install_error_handlers(app, FIELD_RULES, moved)
    return app


@cache
def _routes(with_metrics: bool) -> Sequence[BaseRoute]:
    """The routes of every application of this process: FastAPI takes a second to make out what they take."""
    of_all = APIRouter(generate_unique_id_function=operation_id)
    for router in (*ROUTERS, OF_BOTH) if with_metrics else ROUTERS:
        of_all.include_router(router, dependencies=[Depends(require_acceptable)])
    of_all.include_router(PAGES, include_in_schema=False, dependencies=[Depends(require_acceptable)])
    return of_all.routes


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Describe the routes, and the problems that each may answer."""
        if self.openapi_schema is None:
            self.openapi_schema = complete(super().openapi())
        return self.openapi_schema
