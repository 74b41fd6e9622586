"""Every field that a caller sends, reads or sets has its own description."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import counterpose_core.contract
from counterpose_core import field_descriptions
from counterpose_core.field_descriptions import Described, field_description
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
    fields = model.model_fields
    assert [name for name in fields if not is_a_sentence(field_description(model, name))] == []


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


class Parent(Described):
    side: int = Field(default=1, alias="sideLength")
    """Side of a square,
    in pixels."""
    colour: str = Field(default="red", description="Name of its colour.")
    plain: int = 0


class Child(Parent):
    side: int = 2
    depth: int = 3
    """Depth of a box."""


def test_a_field_is_described_by_the_docstring_beneath_it_in_its_class_or_a_parent() -> None:
    fields = Child.model_fields
    told = {name: field_description(Child, name) for name in fields}
    assert told["side"] == "Side of a square, in pixels."
    assert (told["colour"], told["depth"], told["plain"]) == ("Name of its colour.", "Depth of a box.", "")
    properties = Parent.model_json_schema()["properties"]
    assert properties["sideLength"]["description"] == "Side of a square, in pixels."
    assert "description" not in properties["plain"]


def test_without_the_source_a_field_has_no_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_descriptions, "_docstrings", field_descriptions._docstrings.__wrapped__)

    def no_source(module: object) -> str:
        raise OSError(module)

    monkeypatch.setattr(inspect, "getsource", no_source)
    assert field_description(Child, "depth") == ""
