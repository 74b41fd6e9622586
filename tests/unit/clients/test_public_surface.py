"""What a program may rely on: the public names, the constructors, what the environment and defaults say."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

import counterpose
from counterpose import (
    AdversarialDataset,
    AsyncAdversarialDataset,
    AsyncBugHunt,
    AsyncClient,
    AsyncDatasetInterface,
    AsyncGate,
    AsyncGeneratedImage,
    AsyncGeneratedImages,
    AsyncShiftBenchmark,
    AsyncStressTest,
    AsyncTransfer,
    BugHunt,
    Client,
    DatasetInterface,
    Gate,
    GeneratedImage,
    GeneratedImages,
    RetryPolicy,
    ShiftBenchmark,
    StressTest,
    Transfer,
)
from counterpose_core import errors as core_errors
from counterpose_core.errors import CounterposeError, InvalidRequest
from fakes.sdk import URL, Session, figure, ok, run_answer, stream_answer, summary_answer
from fakes.sdk import a_summary as some_figures
from fakes.sdk import an_event as event

PUBLIC = [
    "AdversarialDataset", "AdversarialDatasetSummary", "AsyncAdversarialDataset", "AsyncTransfer",
    "Transfer", "TransferSummary", "AsyncGate", "Gate", "GateSummary", "RegressionSet",
    "AsyncBugHunt", "AsyncClient", "AsyncDatasetInterface", "AsyncGeneratedImage", "AsyncGeneratedImages",
    "BugHunt", "BugHuntSummary",
    "AsyncShiftBenchmark", "AsyncStressTest", "Classifier", "Client", "Cost", "DatasetInterface",
    "DatasetInterfaceSummary", "EditType", "Estimate", "GeneratedImage", "GeneratedImages",
    "RetryPolicy", "ShiftBenchmark", "ShiftBenchmarkSummary", "StressTest", "StressTestSummary",
    "__version__", "errors", "log_to_mlflow", "log_to_trackio", "log_to_wandb",
    "EditorComparison", "make_pairs",
    "push_results_to_hub", "push_to_hub",
]  # fmt: skip
ERRORS = [
    "AnswerOffList", "AnswerRefused", "AnswerUnreadable", "NoLabel",
    "ArtifactCorrupt", "ArtifactMissing", "AttentionNotHooked", "BackendError", "BackendUnavailable",
    "BadBackendOutput", "BudgetSpent", "Cancelled", "ClassMapMismatch", "ClusterRefused", "DatasetEmpty",
    "DeadlineExceeded",
    "CounterposeError", "Forbidden",
    "ForeignOrigin", "FunctionGone", "IdempotencyConflict", "IdempotencyInFlight", "ImageTooLarge",
    "ImageUndecodable", "ImagesOutsideSuite", "LedgerMismatch",
    "InternalError", "InvalidRequest", "LeaseLost", "LedgerDamaged", "DiskFailed", "MethodNotAllowed",
    "ModelFormatRefused", "NotFound", "HeadersTooLarge", "MalformedRequest", "NotAcceptable",
    "NumericalFailure", "PayloadTooLarge", "PolicyRefused", "PriceMissing", "PromptTooLong",
    "QuotaExceeded",
    "RateLimited", "RequestError", "RequestTimeout", "ResourceExhausted", "RunNotCancellable",
    "RunNotDeletable", "RunNotEnded", "RunNotResumable", "StorageError", "StorageFull", "Unauthorized",
    "DatasetNotReady", "ImportRefused", "ShardUnreadable", "SignedUrlRefused", "UnknownDataset",
    "UnknownEditType", "UnknownModel", "UnsupportedMedia",
]  # fmt: skip

RESOURCES = (
    "stress_tests", "dataset_interfaces", "shift_benchmarks", "bug_hunts", "adversarial_datasets",
    "transfers", "gates", "runs", "datasets", "token_files", "classifiers", "services", "jobs", "webhooks",
)  # fmt: skip
HANDLES = [
    (StressTest, AsyncStressTest),
    (DatasetInterface, AsyncDatasetInterface),
    (ShiftBenchmark, AsyncShiftBenchmark),
    (BugHunt, AsyncBugHunt),
    (AdversarialDataset, AsyncAdversarialDataset),
    (Transfer, AsyncTransfer),
    (Gate, AsyncGate),
    (GeneratedImage, AsyncGeneratedImage),
    (GeneratedImages, AsyncGeneratedImages),
]


def seen_by(client: Client) -> httpx.Request:
    """The request that a client would send, built by its own httpx client."""
    return client._http.build_request("GET", "/v1/services")


def test_the_public_names_are_pinned_and_sorted() -> None:
    assert counterpose.__all__ == sorted(PUBLIC + ERRORS)
    assert all(hasattr(counterpose, name) for name in counterpose.__all__)


def test_a_type_checker_finds_every_public_name() -> None:
    module = ast.parse(inspect.getsource(counterpose))
    imports = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    exported = [each.name for node in imports for each in node.names if each.asname == each.name]
    assert sorted(exported) == counterpose.__all__


def test_no_other_name_is_public() -> None:
    with pytest.raises(AttributeError, match="'counterpose' has no attribute 'Clients'"):
        _ = counterpose.Clients
    assert set(dir(counterpose)) == set(PUBLIC + ERRORS)
    found = {
        name
        for name, value in vars(counterpose).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    # What has been used so far, and what the module's own source needs.
    assert found <= set(PUBLIC + ERRORS) | {"TYPE_CHECKING", "lazily"}


def test_every_error_of_the_tree_is_importable_from_the_package() -> None:
    tree = {name for name, value in vars(core_errors).items() if inspect.isclass(value)}
    assert {name for name in tree if issubclass(getattr(core_errors, name), CounterposeError)} == set(ERRORS)
    for name in ERRORS:
        assert getattr(counterpose, name) is getattr(core_errors, name)
    assert counterpose.errors is core_errors


def test_the_version_is_that_of_the_distribution() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    assert counterpose.__version__ == pyproject["project"]["version"]


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_the_address_comes_from_argument_then_variable_then_default(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made()._http.base_url == "http://127.0.0.1:8080"
    monkeypatch.setenv("COUNTERPOSE_URL", "http://from-variable:1")
    assert made()._http.base_url == "http://from-variable:1"
    assert made("http://from-argument:2")._http.base_url == "http://from-argument:2"
    monkeypatch.setenv("COUNTERPOSE_URL", "")
    assert made()._http.base_url == "http://127.0.0.1:8080"


def test_the_key_comes_from_argument_then_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "authorization" not in seen_by(Client()).headers
    monkeypatch.setenv("COUNTERPOSE_API_KEY", "from-variable")
    assert seen_by(Client()).headers["authorization"] == "Bearer from-variable"
    assert seen_by(Client(api_key="from-argument")).headers["authorization"] == "Bearer from-argument"


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_an_invalid_address_is_named(made: Any) -> None:
    with pytest.raises(InvalidRequest, match="'http://\\[::1'"):
        made("http://[::1")


@pytest.mark.parametrize("made", [(Client, httpx.Client), (AsyncClient, httpx.AsyncClient)])
@pytest.mark.parametrize("setting", [{"base_url": "http://a"}, {"api_key": "secret"}, {"timeout": 5.0}])
def test_a_setting_that_an_own_httpx_client_overrides_is_rejected(
    made: tuple[Any, Any], setting: dict[str, Any]
) -> None:
    (name,) = setting
    with pytest.raises(InvalidRequest, match=f"'{name}' has no effect together with 'http'") as caught:
        made[0](http=made[1](), **setting)
    assert "secret" not in str(caught.value)


def test_a_client_names_itself_and_its_version() -> None:
    agent = seen_by(Client()).headers["user-agent"]
    assert agent.startswith(f"counterpose/{counterpose.__version__} python/3.")
    assert seen_by(Client(api_key="k")).headers["user-agent"] == agent


def test_an_own_httpx_client_keeps_its_own_name() -> None:
    own = httpx.Client(headers={"user-agent": "mine/1"}, base_url=URL)
    assert seen_by(Client(http=own)).headers["user-agent"] == "mine/1"


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


@pytest.mark.parametrize(
    "noun",
    ["stress_tests", "dataset_interfaces", "shift_benchmarks", "bug_hunts", "adversarial_datasets",
     "transfers", "gates"],
)  # fmt: skip
def test_every_run_takes_keywords_and_defaults_to_seed_zero(kind: str, noun: str) -> None:
    assert keywords_of(getattr(Session(kind).client, noun).create)["seed"] == 0


@pytest.mark.parametrize("made", [DatasetInterface, AsyncDatasetInterface])
def test_generate_takes_keywords_and_defaults_to_seed_zero(made: Any) -> None:
    assert keywords_of(made.generate)["seed"] == 0


def timeouts(request: httpx.Request) -> float:
    """Seconds a request may be silent."""
    read = request.extensions["timeout"]["read"]
    assert isinstance(read, float)
    return read


def test_the_default_timeout_is_one_minute() -> None:
    assert Client()._http.timeout == httpx.Timeout(60.0)
    assert AsyncClient(timeout=5.0)._http.timeout == httpx.Timeout(5.0)


def test_the_timeout_of_the_client_applies_to_calls_without_their_own(kind: str) -> None:
    session = Session(kind, ok({"services": []}))
    session.client._http.timeout = httpx.Timeout(7.0)
    session(lambda client: client.services.list())
    assert timeouts(session.seen[0]) == 7.0


def test_slow_calls_have_longer_timeouts(kind: str) -> None:
    session = Session(
        kind, run_answer(), run_answer("in_progress"), summary_answer(some_figures(steady=figure())),
        httpx.Response(200, text="<html>"), stream_answer(event(1, "completed", 3)),
        run_answer("completed", 3), run_answer(),
    )  # fmt: skip
    run = session(lambda client: client.stress_tests.get("run-1"))
    session(lambda _: run.wait(timeout=20))
    session(lambda _: run.summary())
    session(lambda _: run.report())
    session(lambda _: run.events())
    session(lambda client: client.stress_tests.create(dataset="demo", classifiers=["a"]))
    wait, summary, report, stream, *_, created = (timeouts(request) for request in session.seen[1:])
    assert wait == 20.0 + 15.0
    # A model looks at images before a run of it is created.
    assert (summary, report, created) == (300.0, 300.0, 300.0)
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


def test_a_retry_policy_prints_its_settings() -> None:
    assert repr(RetryPolicy()) == "RetryPolicy(attempts=4, patient_attempts=20)"


@pytest.mark.parametrize("handles", HANDLES)
def test_both_kinds_of_handle_have_the_same_methods(handles: tuple[type, type]) -> None:
    names = [{name for name in dir(made) if not name.startswith("_")} for made in handles]
    assert names[0] == names[1]
    for name in names[0]:
        verbs = [getattr(made, name) for made in handles]
        if inspect.isfunction(verbs[0]):
            told, said = (inspect.signature(verb).parameters.values() for verb in verbs)
            assert [(each.name, each.kind, each.default) for each in told] == [
                (each.name, each.kind, each.default) for each in said
            ]


def test_only_functions_and_datasets_import_array_libraries() -> None:
    root = Path(counterpose.__file__).parent
    users = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module"
        if {ast.unparse(each) for each in node.args} & {"'numpy'", "'torch'", "'PIL.Image'"}
    }
    assert users == {"_python_function", "_datasets"}
