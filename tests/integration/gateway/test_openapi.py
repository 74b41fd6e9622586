"""The checked-in OpenAPI document is the one the gateway serves.

After changing the API, run ``counterpose-gateway openapi --out gateway/openapi.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from counterpose_core.errors import error_classes
from counterpose_gateway.main import main
from counterpose_gateway.openapi.problems import OWN
from fakes.gateway import fake_gateway
from fakes.openapi_document import codes_of, document
from fakes.problems import problem

CHECKED_IN = Path(__file__).resolve().parents[3] / "gateway" / "openapi.json"
DOCUMENT = document()
ROOTS = {
    "StressTestCreate": "/v1/stress-tests",
    "DatasetInterfaceCreate": "/v1/dataset-interfaces",
    "ShiftBenchmarkCreate": "/v1/shift-benchmarks",
}


def test_the_checked_in_document_matches_the_command_s_output(tmp_path: Path) -> None:
    assert main(["openapi", "--out", str(tmp_path / "openapi.json")]) == 0
    written = (tmp_path / "openapi.json").read_text(encoding="utf-8")
    assert written == CHECKED_IN.read_text(encoding="utf-8"), (
        "run: counterpose-gateway openapi --out gateway/openapi.json"
    )


async def test_the_gateway_serves_the_same_document(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        served = (await gateway.http.get("/openapi.json")).json()
    assert served == json.loads(CHECKED_IN.read_text(encoding="utf-8"))


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_operation_lists_the_problems_it_can_return() -> None:
    codes = error_classes()
    operations = list(_operations(DOCUMENT))
    assert len(operations) >= 50
    for _, _, operation in operations:
        assert operation["description"]
        assert "default" not in operation["responses"]
        listed = codes_of(operation)
        assert set(listed) == {"own", "4XX", "5XX"}
        assert "invalid-request" in listed["4XX"]
        assert "internal-error" in listed["5XX"]
        assert {codes[code].status // 100 for code in listed["4XX"]} == {4}
        assert {codes[code].status // 100 for code in listed["5XX"]} == {5}
        assert set(listed["own"]) <= set(codes) - {*listed["4XX"], *listed["5XX"]}
    for name, answer in DOCUMENT["components"]["responses"].items():
        assert name == "CreatedRun" or answer["content"]["application/problem+json"]["schema"][
            "$ref"
        ].endswith("/Problem")


def test_every_single_rule_of_problems_is_about_an_operation() -> None:
    assert set(OWN) <= {f"{method} {path}" for method, path, _ in _operations(DOCUMENT)}


def test_names_of_operations_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in _operations(DOCUMENT)]
    assert len(names) == len(set(names))


def test_every_answer_has_a_type() -> None:
    for _, path, operation in _operations(DOCUMENT):
        for status, answer in operation["responses"].items():
            assert status in ("204", "304") or "$ref" in answer or answer["content"], path
            assert all(content.get("schema") for content in answer.get("content", {}).values()), path


def test_bounds_of_integers_are_integers() -> None:
    schema = DOCUMENT["components"]["schemas"]["Seed"]
    assert json.dumps(schema["exclusiveMaximum"]) == "9223372036854775808"


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        ("StressTestCreate", {"dataset": "demo", "classifiers": [""], "seed": 1}),
        ("StressTestCreate", {"dataset": "demo", "classifiers": ["a/b"], "seed": 1}),
        ("StressTestCreate", {"dataset": "demo", "classifiers": ["a", "a"], "seed": 1}),
        ("StressTestCreate", {"dataset": "demo", "classifiers": ["a"], "seed": 2**63}),
        (
            "StressTestCreate",
            {"dataset": "demo", "classifiers": ["a"], "seed": 1, "functions": {"a/b": "http://127.0.0.1"}},
        ),
        ("DatasetInterfaceCreate", {"dataset": "demo", "classes": [], "seed": 1}),
        ("DatasetInterfaceCreate", {"dataset": "demo", "classes": ["sled", "sled"], "seed": 1}),
        ("ShiftBenchmarkCreate", {"interface": "a", "classifiers": ["a"], "classes": [], "seed": 1}),
    ],
)
async def test_a_body_that_the_gateway_refuses_does_not_fit_the_schema(
    model: str, wrong: dict[str, Any], tmp_path: Path
) -> None:
    document = DOCUMENT
    async with fake_gateway(tmp_path) as gateway:
        problem(await gateway.http.post(ROOTS[model], json=wrong), 422, "invalid-request")
    schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(wrong))


@pytest.mark.fault("B50")
async def test_a_405_names_every_method_that_the_path_answers(tmp_path: Path) -> None:
    by_path: dict[str, set[str]] = {}
    for method, path, _ in _operations(DOCUMENT):
        by_path.setdefault(path, set()).add(method)
    async with fake_gateway(tmp_path) as gateway:
        for path, allowed in by_path.items():
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - allowed:
                answer = await gateway.http.request(method, path.replace("{", "").replace("}", ""))
                assert answer.status_code == 405, (method, path)
                assert set(answer.headers["allow"].split(", ")) == allowed, path


def test_every_link_leads_to_an_operation_and_gives_all_that_its_path_needs() -> None:
    operations = {operation["operationId"]: (path, operation) for _, path, operation in _operations(DOCUMENT)}
    linked = set()
    answers = [*DOCUMENT["components"]["responses"].values()]
    answers += [answer for _, operation in operations.values() for answer in operation["responses"].values()]
    for answer in answers:
        for link in answer.get("links", {}).values():
            path, _ = operations[link["operationId"]]
            linked.add(path)
            assert set(link["parameters"]) == set(re.findall(r"{(\w+)}", path))
    of_runs = {path for path, _ in operations.values() if re.fullmatch(r"/v1/runs/{run_id}[/\w-]*", path)}
    assert len(of_runs) > 12
    assert of_runs <= linked


def test_every_reference_resolves() -> None:
    document = DOCUMENT
    text = json.dumps(document)
    references = set(re.findall(r'"\$ref": "#/components/(\w+)/([^"]+)"', text))
    assert {kind for kind, _ in references} == {"parameters", "responses", "schemas"}
    assert all(name in document["components"][kind] for kind, name in references)
