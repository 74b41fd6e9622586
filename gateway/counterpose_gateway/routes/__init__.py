"""The routes: one module per resource, without logic."""

from __future__ import annotations

from importlib import import_module

from fastapi import APIRouter

from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes import (
    datasets,
    every_run,
    exports,
    jobs,
    operators,
    services,
    signed_urls,
    token_files,
    usage,
    webhooks,
)


def _router_of(kind: str) -> APIRouter:
    """Return the router of a method's runs, which is in the module named after its resource."""
    module = import_module(f"{__name__}.{kind.replace('-', '_')}s")
    router = module.router
    assert isinstance(router, APIRouter)  # every resource of a method is one
    return router


ROUTERS: tuple[APIRouter, ...] = (
    datasets.router,
    token_files.router,
    every_run.router,
    *map(_router_of, METHODS),
    jobs.router,
    webhooks.router,
    exports.router,
    signed_urls.router,
    usage.router,
    services.router,
)
"""The routes of the API."""

OF_BOTH = operators.METRICS
"""Metrics: beside the API, unless there is a listener for operators."""

ADMIN_ROUTERS = operators.ADMIN
"""The routes of that listener."""
