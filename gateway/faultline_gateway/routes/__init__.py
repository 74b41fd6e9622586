"""The routes: one module a resource, no logic."""

from __future__ import annotations

from fastapi import APIRouter

from faultline_gateway.routes import (
    artifacts,
    classifiers,
    dataset_interfaces,
    datasets,
    health,
    services,
    shift_benchmarks,
    stress_tests,
)

ROUTERS: tuple[APIRouter, ...] = (
    datasets.router,
    classifiers.router,
    stress_tests.router,
    dataset_interfaces.router,
    shift_benchmarks.router,
    artifacts.router,
    services.router,
    health.router,
)
