"""The routes: one module per resource, without logic."""

from __future__ import annotations

from fastapi import APIRouter

from counterpose_gateway.routes import (
    adversarial_datasets,
    bug_hunts,
    creation,
    dataset_interfaces,
    datasets,
    exports,
    gates,
    jobs,
    operators,
    runs,
    services,
    shift_benchmarks,
    signed_urls,
    stress_tests,
    token_files,
    usage,
    webhooks,
)

ROUTERS: tuple[APIRouter, ...] = (
    datasets.router,
    token_files.router,
    creation.router,
    runs.listing,
    runs.router,
    stress_tests.router,
    dataset_interfaces.router,
    shift_benchmarks.router,
    bug_hunts.router,
    adversarial_datasets.router,
    gates.router,
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
