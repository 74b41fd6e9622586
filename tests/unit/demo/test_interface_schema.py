"""demo/interface.schema.json describes the demo of dataset interfaces, and its checked-in file is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from counterpose._cli.demo import InterfaceDemo

DEMO = Path(__file__).parents[3] / "demo"
SCHEMA: dict[str, Any] = json.loads((DEMO / "interface.schema.json").read_text(encoding="utf-8"))
WRITTEN: dict[str, Any] = json.loads((DEMO / "interface.json").read_text(encoding="utf-8"))


def test_the_schema_describes_the_written_file() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert InterfaceDemo.model_json_schema(mode="serialization") == SCHEMA


def test_the_checked_in_file_satisfies_the_schema() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(WRITTEN)
    demo = InterfaceDemo.model_validate(WRITTEN)
    assert demo.interface.missing == {}
    assert set(demo.benchmark.image_sources) == {"token", "class-name"}


@pytest.mark.parametrize("missing", ["n", "low", "high", "estimate"])
def test_an_incomplete_figure_is_refused(missing: str) -> None:
    body = json.loads(json.dumps(WRITTEN))
    shift = next(iter(body["benchmark"]["image_sources"]["token"]["shifts"].values()))
    del shift["share_kept"][missing]
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(body)
