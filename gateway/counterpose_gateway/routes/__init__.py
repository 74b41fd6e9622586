"""The routes: one module per resource, without logic."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_core.kinds import KINDS
from counterpose_gateway.methods import METHODS
from counterpose_gateway.routes import (
    adversarial_datasets,
    bug_hunts,
    dataset_interfaces,
    datasets,
    every_run,
    exports,
    gates,
    jobs,
    operators,
    services,
    shift_benchmarks,
    signed_urls,
    stress_tests,
    token_files,
    usage,
    webhooks,
)
from counterpose_gateway.routes.runs import prefix_of, run_router
from counterpose_gateway.runs.method import AnyMethod

_OWN = {
    module.router.prefix: module.router
    for module in (
        adversarial_datasets,
        bug_hunts,
        dataset_interfaces,
        gates,
        shift_benchmarks,
        stress_tests,
    )
}
"""The routers of methods that have verbs of their own."""


def _router_of(method: AnyMethod) -> APIRouter:
    return _OWN.get(prefix_of(KINDS[method.kind])) or run_router(method)


ROUTERS: tuple[APIRouter, ...] = (
    datasets.router,
    token_files.router,
    every_run.router,
    *map(_router_of, METHODS.values()),
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
