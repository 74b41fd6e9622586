"""A user's own function as a classifier: its interface, and how it is served on loopback."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from counterpose import AsyncClient, Client
from counterpose._cli import classifiers
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.main import app
from counterpose._python_function.function import PythonFunction
from counterpose._python_function.local_functions import LocalFunctions
from counterpose._python_function.server import FunctionServer
from counterpose_core.errors import InvalidRequest
from fakes.functions import LIGHT, Write, writing
from fakes.sdk import Session, run_answer

HERE = httpx.URL("http://127.0.0.1:8080")
DARK, WHITE = bytes(4 * 6 * 3), bytes([255]) * (4 * 6 * 3)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    yield from writing(tmp_path, monkeypatch)


@pytest.fixture
def server(module: Write) -> Iterator[FunctionServer]:
    made = FunctionServer(PythonFunction(module(LIGHT)))
    yield made
    made.close()


def returning(expression: str, before: str = "") -> str:
    """A module whose function returns this."""
    text = f"import numpy\ninput_size = (4, 6)\n{before}\n"
    return f"{text}def predict(images):\n    n = len(images)\n    return {expression}\n"


def posted(server: FunctionServer, body: object, verb: str = "/infer", **headers: str) -> httpx.Response:
    url = server.spec.removeprefix("oip:") + verb
    content = body if isinstance(body, bytes) else json.dumps(body)
    with httpx.Client(trust_env=False) as client:
        return client.post(url, content=content, headers=headers)


def asking(pixels: bytes, **changes: object) -> dict[str, Any]:
    n = len(pixels) // len(DARK)
    tensor = {"name": "images", "datatype": "UINT8", "shape": [n, 4, 6, 3], "data": list(pixels)}
    return {"inputs": [tensor | changes]}


def test_a_function_classifies_each_image(module: Write) -> None:
    function = PythonFunction(module(LIGHT))
    assert function.rows(DARK + WHITE, 2) == [[1.0, 0.0], [0.0, 1.0]]
    assert (function.classes, function.n_classes, function.size) == (["dark", "light"], 2, (4, 6))


def test_a_mapping_provides_its_own_class_names(module: Write) -> None:
    function = PythonFunction(module(returning('{"sea": numpy.full(n, 0.25), "boat": [0.75] * n}')))
    assert function.classes == ["sea", "boat"]
    assert function.rows(DARK, 1) == [[0.25, 0.75]]


def test_module_classes_set_the_order_of_a_mapping(module: Write) -> None:
    text = returning('{"sea": [0.25] * n, "boat": [0.75] * n}', 'classes = ("boat", "sea")')
    assert PythonFunction(module(text)).rows(DARK, 1) == [[0.75, 0.25]]


def test_dataset_classes_are_used_when_the_function_names_none(module: Write) -> None:
    function = PythonFunction(module("def predict(x):\n    return [[0.5, 0.5]] * len(x)\n"))
    assert function.classes is None
    assert function.size == (224, 224)


def test_a_function_may_write_to_its_input(module: Write) -> None:
    function = PythonFunction(module(returning("[[1.0]] * n if not images.fill(0) else None")))
    assert function.rows(DARK, 1) == [[1.0]]


FAILING = """
import numpy
input_size = (4, 6)
def predict(images):
    if (images == 255).all(axis=(1, 2, 3)).any():
        raise ValueError("too\\n light")
    return numpy.full((len(images), 2), 0.5)
"""


def test_a_function_error_fails_only_its_own_image(module: Write) -> None:
    rows = PythonFunction(module(FAILING)).rows(DARK + WHITE + DARK, 3)
    assert rows == [[0.5, 0.5], "ValueError: too light", [0.5, 0.5]]


BAD_AFTER_GREY = {
    "exit": ("exit(3) if (images[0] == 0).all() else [[1.0]] * n", "SystemExit: 3"),
    "nan": ("[[float('nan')]] * n if (images[0] == 0).all() else [[1.0]] * n", "not probabilities"),
    "negative": ("[[-1.0, 2.0]] * n if (images[0] == 0).all() else [[1.0, 0.0]] * n", "not probabilities"),
    "logits": ("[[3.0, 2.0]] * n if (images[0] == 0).all() else [[1.0, 0.0]] * n", "not probabilities"),
    "wider": ("[[0.5, 0.5]] * n if (images[0] == 0).all() else [[1.0]] * n", "2 classes, but 1 before"),
    "fewer rows": ("[] if (images[0] == 0).all() else [[1.0]] * n", "shape"),
    "words": ("[['a']] * n if (images[0] == 0).all() else [[1.0]] * n", "ValueError"),
    "other names": ("{'a' if (images[0] == 0).all() else 'b': [1.0] * n}", "the classes"),
}


@pytest.mark.parametrize("case", BAD_AFTER_GREY)
def test_an_invalid_result_fails_only_its_own_image(case: str, module: Write) -> None:
    expression, named = BAD_AFTER_GREY[case]
    failed, fine = PythonFunction(module(returning(expression))).rows(DARK + WHITE, 2)
    assert isinstance(failed, str)
    assert named in failed
    assert isinstance(fine, list)


def test_of_a_thousand_classes_only_the_equal_names_are_told(module: Write) -> None:
    names = [f"class {number}" for number in range(1000)]
    names[517], names[639] = names[134], names[638]
    with pytest.raises(InvalidRequest) as refused:
        PythonFunction(module(returning("[[0.001] * 1000] * n", f"classes = {names!r}")))
    said = refused.value.detail
    assert "'class 134' is rows 134 and 517; 'class 638' is rows 638 and 639" in said
    assert len(said) < 300


UNUSABLE = {
    "raises": (returning("1 / 0"), "two grey images: ZeroDivisionError"),
    "one row": (returning("[[1.0]]"), "shape (1, 1) for 2 images"),
    "names and width": (returning("[[1.0]] * n", 'classes = ["a", "b"]'), "returned 1 classes"),
    "names twice": (
        returning("[[1.0]] * n", 'classes = ["a", "a"]'),
        "names, but 'a' is rows 0 and 1;",
    ),
    "names in a string": (returning("[[1.0]] * n", 'classes = "ab"'), "a list of names, not 'ab'"),
    "names of a mapping": (returning("{1: [1.0] * n}"), "a list of names, not 1"),
    "size": ("input_size = 224\ndef predict(x): ...\n", "input_size"),
    "large size": ("input_size = (2000, 2000)\ndef predict(x): ...\n", "input_size"),
    "no function": ("predicts = 1\n", "no function 'predict'"),
    "no callable": ("predict = 1\n", "no function 'predict'"),
    "syntax": ("def predict(:\n", "SyntaxError"),
    "fails on import": ("raise RuntimeError('no weights')\n", "RuntimeError: no weights"),
    "exits on import": ("exit(1)\n", "SystemExit"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_function_is_rejected_at_once(case: str, module: Write) -> None:
    text, named = UNUSABLE[case]
    spec = module(text)
    with pytest.raises(InvalidRequest) as refused:
        PythonFunction(spec)
    assert named in refused.value.detail
    assert spec in refused.value.detail


@pytest.mark.parametrize(
    "spec",
    ["py:", "py:model", "py:model:", "py::f", "py:a/b:f", "py:../m:f", "py:m:f:g", "py:m:f()", "py:m\n:f"],
)
def test_a_spec_needs_a_module_and_a_function(spec: str) -> None:
    with pytest.raises(InvalidRequest, match="py:module:function"):
        PythonFunction(spec)


def test_an_error_names_the_missing_module() -> None:
    with pytest.raises(InvalidRequest, match="cannot import 'absent_model'"):
        PythonFunction("py:absent_model:predict")


def test_changing_a_module_changes_its_version(module: Write) -> None:
    versions = {PythonFunction(module(LIGHT + "#" * changed)).version for changed in (0, 0, 1)}
    assert len(versions) == 2


def test_a_function_is_served_over_the_open_inference_protocol(server: FunctionServer) -> None:
    url = server.spec.removeprefix("oip:")
    with httpx.Client(trust_env=False) as client:
        metadata = client.get(url).json()
        assert client.get(url.partition("/versions")[0]).json() == metadata
        assert client.get(f"{url.partition('/v2/')[0]}/v2/health/ready").json() == {"ready": True}
    assert metadata["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 4, 6, 3]}]
    assert metadata["outputs"][0]["parameters"] == {"labels": ["dark", "light"]}
    (output,) = posted(server, asking(DARK + WHITE)).json()["outputs"]
    assert (output["shape"], output["data"]) == ([2, 2], [1.0, 0.0, 0.0, 1.0])
    assert "parameters" not in output


def test_a_failed_image_returns_a_message_and_no_probabilities(module: Write) -> None:
    server = FunctionServer(PythonFunction(module(FAILING)))
    try:
        (output,) = posted(server, asking(WHITE + DARK)).json()["outputs"]
        assert output["data"] == [None, None, 0.5, 0.5]
        assert output["parameters"] == {"errors": {"0": "ValueError: too light"}}
        assert posted(server, asking(DARK)).status_code == 200
    finally:
        server.close()


@pytest.mark.fault("B23")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"[" * 100_000, {}, {"inputs": []}, {"inputs": [1]},
        asking(b""), asking(DARK, shape=[2, 4, 6, 3]), asking(DARK, shape=[1, 6, 4, 3]),
        asking(DARK, shape=[-1, 4, 6, 3]), asking(DARK, shape=[]), asking(DARK, shape="1463"),
        asking(DARK, datatype="FP32"), asking(DARK, data=[256] * len(DARK)),
        asking(DARK, data=[0.5] * len(DARK)),
        asking(DARK, data=10**9), asking(DARK, data="a" * len(DARK)), asking(DARK, data={}),
        asking(DARK, shape=[2**80, 4, 6, 3]), asking(DARK, data=[list(DARK)]),
        asking(DARK, data=[-1] * len(DARK)), asking(DARK, data=[math.nan] * len(DARK)),
        asking(DARK, data=[math.inf] * len(DARK)), asking(DARK, shape=[math.inf, 4, 6, 3]),
        asking(DARK, shape=[math.nan, 4, 6, 3]),
    ],
)  # fmt: skip
def test_the_server_rejects_an_invalid_body_and_keeps_running(body: object, server: FunctionServer) -> None:
    answer = posted(server, body)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert posted(server, asking(DARK)).status_code == 200


def test_other_paths_are_not_served(server: FunctionServer) -> None:
    with httpx.Client(trust_env=False, base_url=f"http://{server.host}") as client:
        name = server.function.name
        unlocked = f"/v2/models/{name}"
        for path in (
            "/",
            unlocked,
            f"/{'0' * 40}{unlocked}",
            f"//{unlocked}",
            "/v2/health/live",
            "/v2/models/../../etc/passwd",
            "/v2/repository/index",
        ):
            assert client.get(path).status_code == 404
    assert posted(server, asking(DARK), "/explain").status_code == 404


def test_a_request_for_another_host_name_is_rejected(server: FunctionServer) -> None:
    assert posted(server, asking(DARK), host="evil.test").status_code == 403


@pytest.mark.parametrize("length", [str(10**12), "-1", "many", ""])
def test_a_body_without_a_length_is_rejected_without_reading_it(length: str, server: FunctionServer) -> None:
    connection = http.client.HTTPConnection(server.host)
    connection.putrequest("POST", server.spec.partition(server.host)[2] + "/infer")
    connection.putheader("content-length", length)
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, response.getheader("connection")) == (413, "close")
    connection.close()


def test_an_error_names_the_port_in_use(server: FunctionServer, module: Write) -> None:
    port = int(server.host.rpartition(":")[2])
    with pytest.raises(InvalidRequest, match=f"port {port}"):
        FunctionServer(PythonFunction(module(LIGHT)), port)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_address_sent_to_the_gateway_works_until_the_client_closes(kind: str, module: Write) -> None:
    spec = module(LIGHT)
    session = Session(kind, run_answer(), run_answer())
    session.client._http.base_url = HERE
    for _ in range(2):
        session(lambda c: c.stress_tests.create(dataset="demo", classifiers=["steady", spec], seed=0))
    first, again = (json.loads(request.content) for request in session.seen)
    name = spec.removeprefix("py:").replace(":", ".")
    assert first == again
    assert (first["classifiers"], list(first["functions"])) == (["steady", name], [name])
    url = first["functions"][name]
    assert f"/v2/models/{name}/versions/" in url
    with httpx.Client(trust_env=False) as client:
        assert client.get(url).status_code == 200
        session(lambda c: c.close())
        # A connection that is still open is answered, too, and then closed.
        refused = client.get(url)
        assert (refused.status_code, refused.headers.get("connection")) == (503, "close")
        with pytest.raises(httpx.ConnectError):
            client.get(url)


@pytest.mark.parametrize("host", ["gateway.example", "10.0.0.7", "[2001:db8::1]", "127.0.0.1.example"])
def test_a_function_is_rejected_for_a_gateway_on_another_machine(host: str) -> None:
    with pytest.raises(InvalidRequest, match="but the gateway is on"):
        LocalFunctions().serve_functions(["py:absent_model:predict"], httpx.URL(f"http://{host}:8080"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_function_is_served_for_a_gateway_on_this_machine(host: str, module: Write) -> None:
    functions = LocalFunctions()
    (told,) = functions.serve_functions([module(LIGHT)], httpx.URL(f"https://{host}"))
    functions.close()
    assert told.startswith("oip:http://127.0.0.1:")


def test_other_classifiers_are_sent_to_any_gateway() -> None:
    named = ["steady", "timm:resnet50", "oip:http://a.test/v2/models/m"]
    assert LocalFunctions().serve_functions(named, httpx.URL("https://gateway.example")) == named


async def test_both_clients_serve_functions(module: Write) -> None:
    spec = module(LIGHT)
    with Client(str(HERE)) as client:
        assert client.serve_functions([spec])[0].startswith("oip:")
    async with AsyncClient(str(HERE)) as client_too:
        assert client_too.serve_functions([spec])[0].startswith("oip:")


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_the_command_serves_until_interrupted(
    module: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def rest() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(classifiers, "_wait_for_interrupt", rest)
    shown = invoke("classifiers", "serve", module(LIGHT))
    assert shown.exit_code == ExitCode.PASSED
    assert shown.stdout.startswith("oip:http://127.0.0.1:")
    assert "stopped" in shown.stderr


def test_the_command_finds_modules_of_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    (tmp_path / "model_beside_the_shell.py").write_text(LIGHT, encoding="utf-8")
    monkeypatch.setattr(classifiers, "_wait_for_interrupt", lambda: None)
    shown = invoke("classifiers", "serve", "py:model_beside_the_shell:predict")
    assert shown.exit_code == ExitCode.PASSED


def test_a_detached_command_cannot_serve() -> None:
    shown = invoke("stress-test", "demo", "--classifier", "py:absent_model:predict", "--detach")
    assert shown.exit_code == ExitCode.USAGE
    assert "counterpose classifiers serve py:absent_model:predict" in shown.stderr


def test_an_unusable_function_exits_with_2() -> None:
    shown = invoke("stress-test", "demo", "--classifier", "py:absent_model:predict")
    assert shown.exit_code == ExitCode.USAGE
    assert "absent_model" in shown.stderr
