"""The routes: a module for each resource, without logic."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_gateway.routes import datasets, exports, jobs, methods, runs, services, webhooks

ROUTERS: tuple[APIRouter, ...] = (
    datasets.router,
    datasets.tokens,
    methods.router,
    runs.listing,
    runs.router,
    jobs.router,
    webhooks.router,
    exports.router,
    exports.links,
    services.router,
)
"""The routes of the API."""

OF_BOTH = services.METRICS
"""Metrics: beside the API, unless there is a listener for operators."""

ADMIN_ROUTERS = (services.METRICS, services.ACCESS_LOG)
"""The routes of that listener."""
