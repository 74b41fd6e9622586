"""The checked-in OpenAPI document is the one the gateway serves.

After changing the API, run ``faultline-gateway openapi --out gateway/openapi.json``.
"""

from __future__ import annotations

import json
from pathlib import Path

from fakes.gateway import fake_gateway
from faultline_gateway.app import bare_app
from faultline_gateway.main import main

CHECKED_IN = Path(__file__).resolve().parents[3] / "gateway" / "openapi.json"
METHODS = {"get", "post", "put"}


def test_the_checked_in_document_matches_the_command_s_output(tmp_path: Path) -> None:
    assert main(["openapi", "--out", str(tmp_path / "openapi.json")]) == 0
    written = (tmp_path / "openapi.json").read_text(encoding="utf-8")
    assert written == CHECKED_IN.read_text(encoding="utf-8"), (
        "run: faultline-gateway openapi --out gateway/openapi.json"
    )


async def test_the_gateway_serves_the_same_document(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        served = (await gateway.http.get("/openapi.json")).json()
    assert served == json.loads(CHECKED_IN.read_text(encoding="utf-8"))


def test_every_operation_lists_the_problems_it_can_return() -> None:
    paths = bare_app().openapi()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    assert len(operations) >= 19
    for operation in operations:
        content = operation["responses"]["default"]["content"]
        assert content["application/problem+json"]["schema"]["$ref"] == "#/components/schemas/Problem"
        assert operation["description"]


def test_every_reference_resolves() -> None:
    document = bare_app().openapi()
    text = json.dumps(document)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])
