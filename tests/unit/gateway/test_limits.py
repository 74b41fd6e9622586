"""Every route, layout of imports and setting has a declared bound: a new one without it turns this red."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi.dependencies.models import Dependant

from counterpose_core.contract.datasets import Layout
from counterpose_gateway.app import bare_app
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.in_flight import bound_of
from counterpose_gateway.settings import GatewaySettings, variable
from counterpose_services.settings import ServiceSettings
from counterpose_services.settings import variable as services_variable

MOST_ROWS = 1000
PAGE = "docs/limits.toml"
DECLARED = tomllib.loads((Path(__file__).parents[3] / PAGE).read_text(encoding="utf-8"))


def walked(routes: Sequence[Any]) -> Iterator[Any]:
    """All routes, those of included routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from [route] if inner is None else walked(inner.routes)


def parameters(dependant: Dependant) -> Iterator[Any]:
    yield from dependant.query_params
    for inner in dependant.dependencies:
        yield from parameters(inner)


def work_of(route: str) -> dict[str, Any] | None:
    """What requests of a route take, such as ``GET /v1/runs``; None if nothing is declared."""
    works: list[dict[str, Any]] = DECLARED["work"]
    return next((each for each in works if any(fnmatchcase(route, one) for one in each["routes"])), None)


ROUTES = [
    (f"{method} {route.path}", route)
    for route in walked(bare_app().routes)
    for method in sorted(route.methods - {"HEAD"})
]


def test_all_routes_are_walked() -> None:
    names = {name for name, _ in ROUTES}
    assert {"GET /v1/runs", "POST /ui/login", "GET /metrics", "GET /openapi.json"} <= names
    assert len(names) > 75


@pytest.mark.fault("T22")
@pytest.mark.parametrize(("name", "route"), ROUTES, ids=[name for name, _ in ROUTES])
def test_each_route_has_a_bound(name: str, route: Any) -> None:
    work = work_of(name)
    assert work is not None, f"declare in {PAGE} what bounds {name}"
    room = Room(GatewaySettings())
    assert (bound_of(route.path, room) is room.listeners) == ("listeners" in work["takes"])
    if "limit" in {each.name for each in parameters(getattr(route, "dependant", Dependant()))}:
        assert f"{MOST_ROWS:,} rows" in work["takes"]


@pytest.mark.parametrize("name", ["GET /v1/runs/{run_id:segment}/all", "POST /v1/all", "GET /all"])
def test_a_route_that_nobody_declared_has_none(name: str) -> None:
    assert work_of(name) is None


def test_pages_of_rows_are_no_longer_than_is_said() -> None:
    limits = [
        each for _, route in ROUTES if hasattr(route, "dependant")
        for each in parameters(route.dependant) if each.name == "limit"
    ]  # fmt: skip
    assert len(limits) == 3
    for each in limits:
        assert {getattr(one, "le", None) for one in each.field_info.metadata} >= {MOST_ROWS}


def test_each_pattern_is_that_of_a_route() -> None:
    used = {id(work_of(name)) for name, _ in ROUTES}
    assert [work["takes"] for work in DECLARED["work"] if id(work) not in used] == []


def test_each_layout_of_imports_has_a_bound() -> None:
    assert set(DECLARED["imports"]) == set(get_args(Layout))


def test_each_setting_that_bounds_is_declared_and_each_declared_one_is_a_setting() -> None:
    known = {variable(name) for name in GatewaySettings.model_fields}
    known |= {services_variable(name) for name in ServiceSettings.model_fields}
    declared = {
        f"COUNTERPOSE_{each['source']}"
        for each in DECLARED["limit"]
        if not each["source"].startswith("fixed")
    }
    assert declared <= known
    assert {variable(name) for name in GatewaySettings.model_fields if name.startswith("max_")} <= declared


def test_each_bound_of_a_process_is_on_the_page() -> None:
    told = " ".join(f"{each.get('series')} {each['bounds']}" for each in DECLARED["limit"])
    assert [use.name for use in Room(GatewaySettings()).uses if use.name not in told] == []
