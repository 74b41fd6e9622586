"""Strict models of what we use of Prometheus' operator (``monitoring.coreos.com/v1``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manifests.fields import KeyReference, Labels, Name, Selector, Strict

Duration = Annotated[str, Field(pattern=r"^\d+(s|m|h)$")]


class Authorization(Strict):
    credentials: KeyReference


class Endpoint(Strict):
    port: str
    path: Literal["/metrics"]
    interval: Duration
    honor_labels: bool
    authorization: Authorization


class ServiceMonitorSpec(Strict):
    selector: Selector
    endpoints: list[Endpoint] = Field(min_length=1)


class Annotations(Strict):
    summary: str
    description: str


class Rule(Strict):
    alert: str
    expr: str
    # The word is Python's own.
    lasting: Duration | None = Field(default=None, alias="for")
    labels: Labels
    annotations: Annotations


class Group(Strict):
    name: Name
    rules: list[Rule] = Field(min_length=1)


class RulesSpec(Strict):
    groups: list[Group] = Field(min_length=1)
