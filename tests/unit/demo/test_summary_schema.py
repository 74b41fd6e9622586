"""demo/summary.schema.json accepts a stress test's output and requires an interval and n per figure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fakes.sdk import a_summary, figure

SCHEMA = json.loads((Path(__file__).parents[3] / "demo" / "summary.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EDIT = {key: figure().model_dump() for key in ("delta_p", "abs_delta_p", "drop")} | {"n_images": 39}


def typical() -> dict[str, Any]:
    """A summary with a figure in each place that has one."""
    body: dict[str, Any] = json.loads(a_summary(leaning=figure()).model_dump_json(by_alias=True))
    body["edit_types"] = {"background": copy.deepcopy(EDIT)}
    body["models"]["leaning"] |= {
        "edit_types": {"background": copy.deepcopy(EDIT)},
        "controls": {"placebo": copy.deepcopy(EDIT)},
        "beyond_control": figure().model_dump(),
    }
    return body


def figures(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where the figures of a summary stand."""
    if isinstance(value, dict):
        if "estimate" in value:
            yield path
        for key, each in value.items():
            yield from figures(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from figures(each, (*path, str(place)))


def at(body: Any, path: tuple[str, ...]) -> Any:
    """What stands there."""
    for key in path:
        body = body[int(key)] if isinstance(body, list) else body[key]
    return body


FIGURES = [pytest.param(path, id=".".join(path)) for path in figures(typical())]


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_typical_summary_is_accepted() -> None:
    VALIDATOR.validate(typical())


def test_the_tested_figures_include_rows_edit_types_and_yields() -> None:
    found = {".".join(path) for path in figures(typical())}
    for row in ("original", "reconstruction", "counterfactual"):
        assert {f"models.leaning.{row}.hit_rates.0", f"models.leaning.{row}.hit_rates.1"} <= found
    assert {"edit_types.background.delta_p", "yield.gate-direction"} <= found


@pytest.mark.parametrize("missing", ["n", "low", "high", "estimate"])
@pytest.mark.parametrize("path", FIGURES)
def test_an_incomplete_figure_is_refused(path: tuple[str, ...], missing: str) -> None:
    body = typical()
    del at(body, path)[missing]
    assert not VALIDATOR.is_valid(body)


@pytest.mark.parametrize("path", FIGURES)
def test_a_bare_number_is_refused_as_a_figure(path: tuple[str, ...]) -> None:
    body = typical()
    figure_at = at(body, path[:-1])
    figure_at[int(path[-1]) if isinstance(figure_at, list) else path[-1]] = 0.9
    assert not VALIDATOR.is_valid(body)


@pytest.mark.parametrize("n", [-1, 1.5, "39", None])
def test_an_invalid_n_is_refused(n: object) -> None:
    body = typical()
    at(body, ("yield", "gate-direction"))["n"] = n
    assert not VALIDATOR.is_valid(body)


@pytest.mark.parametrize("part", ["models", "edit_types", "insights", "counts", "yield", "cost", "wall_s"])
def test_an_incomplete_summary_is_refused(part: str) -> None:
    body = typical()
    del body[part]
    assert not VALIDATOR.is_valid(body)
