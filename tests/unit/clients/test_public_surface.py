"""What a program may rely on: the public names, the constructors, what the environment and defaults say."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

import faultline
from fakes.sdk import URL, Session, figure, ok, run_answer, stream_answer, summary_answer
from fakes.sdk import a_summary as some_figures
from fakes.sdk import an_event as event
from faultline import (
    AsyncClient,
    AsyncDatasetInterface,
    AsyncGeneratedPicture,
    AsyncGeneratedPictures,
    AsyncShiftBenchmark,
    AsyncStressTest,
    Client,
    DatasetInterface,
    GeneratedPicture,
    GeneratedPictures,
    RetryPolicy,
    ShiftBenchmark,
    StressTest,
)
from faultline.resources.dataset_interfaces import AsyncDatasetInterfaces, DatasetInterfaces
from faultline.resources.shift_benchmarks import AsyncShiftBenchmarks, ShiftBenchmarks
from faultline.resources.stress_tests import AsyncStressTests, StressTests
from faultline_core.errors import InvalidRequest

PUBLIC = [
    "AsyncClient", "AsyncDatasetInterface", "AsyncGeneratedPicture", "AsyncGeneratedPictures",
    "AsyncShiftBenchmark", "AsyncStressTest", "Client", "Cost", "DatasetInterface",
    "DatasetInterfaceSummary", "EditType", "Estimate", "FaultlineError", "GeneratedPicture",
    "GeneratedPictures", "RetryPolicy", "ShiftBenchmark", "ShiftBenchmarkSummary", "StressTest",
    "StressTestSummary",
]  # fmt: skip

RESOURCES = (
    "stress_tests", "dataset_interfaces", "shift_benchmarks", "datasets", "classifiers", "services",
)  # fmt: skip
HANDLES = [
    (StressTest, AsyncStressTest),
    (DatasetInterface, AsyncDatasetInterface),
    (ShiftBenchmark, AsyncShiftBenchmark),
    (GeneratedPicture, AsyncGeneratedPicture),
    (GeneratedPictures, AsyncGeneratedPictures),
]


def seen_by(client: Client) -> httpx.Request:
    """The request that a client would send, built by its own httpx client."""
    return client._http.build_request("GET", "/v1/services")


def test_the_public_names_are_pinned_and_sorted() -> None:
    assert faultline.__all__ == PUBLIC
    assert all(hasattr(faultline, name) for name in PUBLIC)


def test_nothing_else_public_is_to_be_found() -> None:
    found = {
        name
        for name, value in vars(faultline).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert found == set(PUBLIC)


def test_the_version_is_the_distribution_s() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    assert faultline.__version__ == pyproject["project"]["version"]


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_the_address_comes_from_argument_then_variable_then_default(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made()._http.base_url == "http://127.0.0.1:8080"
    monkeypatch.setenv("FAULTLINE_URL", "http://from-variable:1")
    assert made()._http.base_url == "http://from-variable:1"
    assert made("http://from-argument:2")._http.base_url == "http://from-argument:2"
    monkeypatch.setenv("FAULTLINE_URL", "")
    assert made()._http.base_url == "http://127.0.0.1:8080"


def test_the_key_comes_from_argument_then_variable_and_else_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "authorization" not in seen_by(Client()).headers
    monkeypatch.setenv("FAULTLINE_API_KEY", "from-variable")
    assert seen_by(Client()).headers["authorization"] == "Bearer from-variable"
    assert seen_by(Client(api_key="from-argument")).headers["authorization"] == "Bearer from-argument"


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_an_address_that_cannot_be_read_is_named(made: Any) -> None:
    with pytest.raises(InvalidRequest, match="'http://\\[::1'"):
        made("http://[::1")


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_all_but_the_address_is_keyword_only(made: Any) -> None:
    parameters = inspect.signature(made).parameters
    names = ["base_url", "api_key", "timeout", "retries", "http"]
    assert list(parameters) == names
    assert {parameters[name].kind for name in names[1:]} == {inspect.Parameter.KEYWORD_ONLY}


def keywords_of(verb: Any) -> dict[str, Any]:
    """Default by parameter, all of which are keywords."""
    parameters = {name: told for name, told in inspect.signature(verb).parameters.items() if name != "self"}
    assert {told.kind for told in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    return {name: told.default for name, told in parameters.items()}


@pytest.mark.parametrize("made", [StressTests, AsyncStressTests])
def test_a_stress_test_is_described_by_keywords_and_its_seed_is_never_a_default(made: Any) -> None:
    assert keywords_of(made.create)["seed"] is inspect.Parameter.empty


@pytest.mark.parametrize(
    "made", [DatasetInterfaces, AsyncDatasetInterfaces, ShiftBenchmarks, AsyncShiftBenchmarks]
)
def test_interfaces_and_benchmarks_are_described_by_keywords_and_say_the_seed_they_take(made: Any) -> None:
    assert keywords_of(made.create)["seed"] == 0


@pytest.mark.parametrize("made", [DatasetInterface, AsyncDatasetInterface])
def test_generation_is_described_by_keywords_and_says_the_seed_it_takes(made: Any) -> None:
    assert keywords_of(made.generate)["seed"] == 0


def timeouts(request: httpx.Request) -> float:
    """Seconds a request may be silent."""
    read = request.extensions["timeout"]["read"]
    assert isinstance(read, float)
    return read


def test_a_call_may_take_a_minute_unless_told_otherwise() -> None:
    assert Client()._http.timeout == httpx.Timeout(60.0)
    assert AsyncClient(timeout=5.0)._http.timeout == httpx.Timeout(5.0)


def test_the_client_s_timeout_holds_where_a_call_has_none_of_its_own(kind: str) -> None:
    session = Session(kind, ok({"services": []}))
    session.client._http.timeout = httpx.Timeout(7.0)
    session(lambda client: client.services.list())
    assert timeouts(session.seen[0]) == 7.0


def test_calls_that_may_take_long_are_given_their_time(kind: str) -> None:
    session = Session(
        kind, run_answer(), run_answer("in_progress"), summary_answer(some_figures(steady=figure())),
        httpx.Response(200, text="<html>"), stream_answer(event(1, "completed", 3)),
        run_answer("completed", 3),
    )  # fmt: skip
    run = session(lambda client: client.stress_tests.get("run-1"))
    session(lambda _: run.wait(timeout=20))
    session(lambda _: run.summary())
    session(lambda _: run.report())
    session(lambda _: run.events())
    wait, summary, report, stream = (timeouts(request) for request in session.seen[1:5])
    assert wait == 20.0 + 15.0
    assert (summary, report) == (300.0, 300.0)
    assert stream > 15.0, "a stream may be silent between two heartbeats"


def test_a_client_closes_what_it_opened() -> None:
    with Client(URL) as client:
        assert not client._http.is_closed
    assert client._http.is_closed


async def test_an_asyncio_client_closes_what_it_opened() -> None:
    async with AsyncClient(URL) as client:
        assert not client._http.is_closed
    assert client._http.is_closed


def test_resources_are_made_once(kind: str) -> None:
    client = Session(kind).client
    for name in RESOURCES:
        assert getattr(client, name) is getattr(client, name)


def test_a_policy_prints_as_its_recipe() -> None:
    assert repr(RetryPolicy()) == "RetryPolicy(attempts=4, patient_attempts=20)"


@pytest.mark.parametrize("handles", HANDLES)
def test_both_kinds_of_handle_offer_the_same(handles: tuple[type, type]) -> None:
    names = [{name for name in dir(made) if not name.startswith("_")} for made in handles]
    assert names[0] == names[1]
