"""How the shared handlers answer errors of the tree, refused bodies and the router's own errors."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, FastAPI
from pydantic import BaseModel, ConfigDict, Field

from counterpose_core.errors import CounterposeError, QuotaExceeded, error_classes
from counterpose_http import RETRY_AFTER_SECONDS, FieldRule, install_error_handlers, problem_response
from counterpose_http.exception_handlers import MAX_NAMED_FIELDS, json_pointer

OVER_QUOTA = FieldRule(QuotaExceeded, lambda error: error["type"] == "less_than_equal")


class Order(BaseModel):
    """A body with a bound, a closed list of keys and an alternative."""

    model_config = ConfigDict(extra="forbid")
    count: int = 1
    parts: list[int] | str = []
    size: Annotated[int, Field(le=3)] = 1


def application(*rules: FieldRule, error: CounterposeError | None = None) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    install_error_handlers(app, rules)

    @app.post("/orders")
    def order(body: Annotated[Order, Body()]) -> None:
        if error is not None:
            raise error

    return app


async def post(app: FastAPI, content: bytes, path: str = "/orders", method: str = "POST") -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://server.test") as http:
        return await http.request(method, path, content=content, headers=headers)


async def problem_of(content: bytes, *rules: FieldRule) -> dict[str, Any]:
    response = await post(application(*rules), content)
    found: dict[str, Any] = response.json()
    assert found["status"] == response.status_code
    return found


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_retry_after_is_sent_only_for_retryable_problems(code: str) -> None:
    error = error_classes()[code]("x")
    given = problem_response(error, "id").headers.get("retry-after")
    assert given == (str(RETRY_AFTER_SECONDS) if error.retryable else None)


@pytest.mark.parametrize(
    ("location", "pointer"),
    [
        (("body",), ""),
        (("body", "items", 3, "label"), "/items/3/label"),
        (("body", "a/b~c"), "/a~1b~0c"),
        (("query", "limit"), "/limit"),
        (("body", "classes", "list[str]", 1), "/classes/1"),
    ],
)
def test_a_location_becomes_an_rfc_6901_pointer(location: tuple[str | int, ...], pointer: str) -> None:
    assert json_pointer(location) == pointer


@pytest.mark.parametrize(
    ("location", "pointer"),
    [
        (("run", "stress-test", "request", "limit"), "/run/request/limit"),
        (("run", "stress-test", "request"), "/run/request"),
        (("run", "stress-test", "more"), "/run/more"),
        (("steps", 1, "edit", "word"), "/steps/1/word"),
    ],
)
def test_a_pointer_has_no_tag_that_the_body_lacks(location: tuple[str | int, ...], pointer: str) -> None:
    run = {"kind": "stress-test", "request": {"seed": 1}, "more": 1}
    body = {"run": run, "steps": [{}, {"kind": "edit", "word": "dog"}]}
    assert json_pointer(("body", *location), body) == pointer


async def test_an_unknown_key_is_named_by_its_escaped_pointer() -> None:
    problem = await problem_of(b'{"a/b~c": 1}')
    assert [error["pointer"] for error in problem["errors"]] == ["/a~1b~0c"]
    assert problem["detail"].startswith("/a~1b~0c: ")


async def test_a_body_that_is_not_json_is_refused_with_the_place_and_without_a_field() -> None:
    problem = await problem_of(b'{"count": }')
    assert (problem["code"], problem["errors"][0]["pointer"]) == ("invalid-request", "")
    assert "not valid JSON" in problem["detail"]
    assert problem["detail"].endswith("at character 10")


async def test_a_missing_body_is_named_as_the_body() -> None:
    assert (await problem_of(b""))["detail"] == "the body: a value is required"


async def test_a_refused_value_is_not_repeated() -> None:
    assert "a secret" not in str(await problem_of(b'{"count": "a secret"}'))


async def test_many_refused_fields_are_named_up_to_a_limit() -> None:
    keys = ",".join(f'"k{number}": 1' for number in range(3 * MAX_NAMED_FIELDS))
    assert len((await problem_of(f"{{{keys}}}".encode()))["errors"]) == MAX_NAMED_FIELDS


async def test_a_field_rule_gives_its_own_code_and_comes_first() -> None:
    # Pydantic itself names `parts` first.
    body = b'{"parts": {}, "size": 9}'
    refused, plain = await problem_of(body, OVER_QUOTA), await problem_of(body)
    assert (refused["code"], plain["code"]) == ("quota-exceeded", "invalid-request")
    assert (refused["errors"][0]["pointer"], plain["errors"][0]["pointer"]) == ("/size", "/parts")


async def test_an_unknown_path_is_named() -> None:
    response = await post(application(), b"", "/nowhere")
    assert (response.status_code, response.json()["code"]) == (404, "not-found")
    assert response.json()["detail"].startswith("POST '/nowhere': ")


async def test_a_refused_method_is_answered_with_the_allowed_ones() -> None:
    response = await post(application(), b"", method="DELETE")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["detail"] == "DELETE '/orders': this path answers POST only"


@pytest.mark.parametrize(("code", "logged"), [("backend-unavailable", True), ("unknown-model", False)])
async def test_only_failures_on_our_side_are_logged(
    code: str, logged: bool, log_records: list[logging.LogRecord]
) -> None:
    app = application(error=error_classes()[code]("the editor is down"))
    assert (await post(app, b"{}")).json()["code"] == code
    found = [record for record in log_records if record.levelno >= logging.WARNING]
    assert bool(found) is logged
