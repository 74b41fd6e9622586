"""Every field that a caller sends, reads or sets has its own description."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import counterpose_core.contract
from counterpose_core.types import Cost, Estimate
from counterpose_gateway.settings import GatewaySettings
from counterpose_services.settings import ServiceSettings

OPENAPI: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "gateway" / "openapi.json").read_text(encoding="utf-8")
)
SCHEMAS: dict[str, dict[str, Any]] = OPENAPI["components"]["schemas"]
OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, operations in OPENAPI["paths"].items()
    for method, operation in operations.items()
]


def bodies() -> list[type[BaseModel]]:
    """Every model that a module of the contract defines."""
    package = counterpose_core.contract
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == module.__name__
    ]


def test_every_property_of_the_http_api_has_a_description() -> None:
    properties = [
        (f"{name}.{field}", schema)
        for name, described in SCHEMAS.items()
        for field, schema in described.get("properties", {}).items()
    ]
    assert len(properties) > 400
    assert [name for name, schema in properties if not is_a_sentence(schema.get("description"))] == []


@pytest.mark.parametrize(
    "model", [*bodies(), Cost, Estimate, GatewaySettings, ServiceSettings], ids=lambda model: model.__name__
)
def test_every_field_has_a_description(model: type[BaseModel]) -> None:
    fields = model.model_fields.items()
    assert [name for name, field in fields if not is_a_sentence(field.description)] == []


@pytest.mark.parametrize(("route", "operation"), OPERATIONS, ids=[route for route, _ in OPERATIONS])
def test_every_operation_is_described_in_one_line(route: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert is_a_sentence(operation["description"].splitlines()[0]), route


@pytest.mark.parametrize(("route", "operation"), OPERATIONS, ids=[route for route, _ in OPERATIONS])
def test_every_parameter_of_the_http_api_has_a_description(route: str, operation: dict[str, Any]) -> None:
    shared = OPENAPI["components"]["parameters"]
    parameters = [
        shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        for each in operation.get("parameters", [])
    ]
    assert ("{" in route) <= bool(parameters)
    assert [each["name"] for each in parameters if not is_a_sentence(each.get("description"))] == []


def is_a_sentence(text: str | None) -> bool:
    """Whether the text has several words and ends with a full stop."""
    return text is not None and text.endswith(".") and len(text.split()) > 1
