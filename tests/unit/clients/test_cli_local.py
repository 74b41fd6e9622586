"""``counterpose up``, ``down``, ``status`` and ``demo``: what they print and their exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from counterpose._cli import stack as commands
from counterpose._cli.demo import CLASSES, DATASET, DEMOS, OTHERS, PER_CLASS, Method, _onward
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.main import app
from counterpose._stack import Images, Stack, open_stack, status_of
from counterpose._stack import programs as programs_module
from counterpose._stack.demo_datasets import DemoDatasets
from counterpose._stack.record import Record, write_record
from counterpose_core.contract.services import StoreUse
from counterpose_core.installation import adding
from counterpose_core.types import RunState
from counterpose_processes.process import Process
from fakes.benchmark_answers import a_benchmark_summary, benchmark_answer, benchmark_summary_answer
from fakes.command import Play, run
from fakes.hunt_answers import a_hunt_run, a_hunt_summary
from fakes.interface_answers import an_interface_summary, interface_answer
from fakes.sdk import a_summary, an_estimate, figure, ok, run_answer, summary_answer
from fakes.stack_programs import LASTING, FakeGateway


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path / "state"))
    for name in ("COUNTERPOSE_PORT", "COUNTERPOSE_SERVICES_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[FakeGateway]:
    """A gateway that answers, recorded in the state folder with this process in every role."""
    state = tmp_path / "state"
    state.mkdir()
    with FakeGateway(state / "calls") as answering:
        me = Process.of(os.getpid())
        record = Record(
            port=answering.port,
            services_port=1,
            suite="miniature",
            version="0",
            processes={"services": me, "gateway": me, "worker": me},
        )
        write_record(state, record)
        yield answering
        (state / "stack.json").unlink()


def test_without_the_extras_up_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs_module, "find_spec", lambda name: None)
    for verb in ("up", "demo"):
        ended = run(verb)
        assert ended.exit_code == ExitCode.USAGE
        assert adding("all") in ended.stderr
        assert ended.stdout == ""
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("options", [["--port", "0"], ["--services-port", "70000"], ["--port", "x"]])
def test_a_port_that_is_none_is_refused(options: list[str]) -> None:
    assert run("up", *options).exit_code == ExitCode.USAGE


def test_a_taken_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs_module, "find_spec", lambda name: object())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = run("up", "--port", str(port))
    assert ended.exit_code == ExitCode.USAGE
    assert f"port {port} is taken" in ended.stderr


def test_another_suite_than_the_one_that_runs_is_refused_by_name(gateway: FakeGateway) -> None:
    for words in (
        ["up", "--suite", "photographs"],
        [
            "stress-test",
            "demo",
            "--classifier",
            "a",
            "--suite",
            "photographs",
            "--url",
            f"http://127.0.0.1:{gateway.port}",
        ],
    ):
        ended = run(*words)
        assert ended.exit_code == ExitCode.USAGE, ended.output
        assert "already runs from this state folder with the suite 'miniature'" in ended.stderr
    assert open_stack(None, suite="miniature").suite == "miniature"


def test_the_way_out_of_another_suite_names_the_state_folder(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path / "default"))
    monkeypatch.setattr("counterpose._cli.stack.state_at", lambda port: tmp_path / "state")
    address = f"http://127.0.0.1:{gateway.port}"
    ended = run("stress-test", "demo", "--classifier", "a", "--suite", "photographs", "--url", address)
    assert ended.exit_code == ExitCode.USAGE, ended.output
    assert f"stop it with `counterpose down --state {tmp_path / 'state'}`" in ended.stderr


def test_a_suite_is_started_here_and_not_at_another_address(gateway: FakeGateway) -> None:
    ended = run(
        "stress-test", "demo", "--classifier", "a", "--suite", "miniature", "--url", "http://gateway.example"
    )
    assert ended.exit_code == ExitCode.USAGE, ended.output
    assert f"--suite starts Counterpose on this machine, at http://127.0.0.1:{gateway.port}" in ended.stderr


def test_a_started_suite_reaches_every_process(tmp_path: Path) -> None:
    own = open_stack(tmp_path / "own", suite="photographs").environment()
    assert own["COUNTERPOSE_SUITE"] == "photographs"
    assert open_stack(tmp_path / "own").environment()["COUNTERPOSE_SUITE"] == "miniature"


def test_down_of_nothing_says_so_and_succeeds(tmp_path: Path) -> None:
    ended = run("down")
    assert (ended.exit_code, ended.stdout) == (
        0,
        f"nothing was running (state folder {str(tmp_path / 'state')!r})\n",
    )


def test_status_of_nothing_says_how_to_start() -> None:
    ended = run("status")
    assert ended.exit_code == ExitCode.INCOMPLETE
    assert "is not running" in ended.stdout
    assert "Start it: counterpose up" in ended.stdout


@pytest.mark.parametrize("command", ["down", "status"])
def test_what_another_state_folder_started_is_named(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("counterpose._cli.stack.health", lambda url: url)
    # This machine may run one.
    monkeypatch.setattr("counterpose._cli.stack.state_at", lambda port: None)
    ended = run(command)
    assert "a Counterpose answers on port 8080: if another state folder started it" in ended.stderr
    monkeypatch.setattr("counterpose._cli.stack.state_at", lambda port: Path(f"/my {port}"))
    assert "another Counterpose runs on port 8080: --state '/my 8080' means it" in run(command).stderr


def test_status_shows_address_processes_and_what_is_not_ready(gateway: FakeGateway, tmp_path: Path) -> None:
    ended = run("status")
    assert ended.exit_code == ExitCode.INCOMPLETE
    head, *lines = ended.stdout.splitlines()
    assert head == f"Counterpose 0.0.1 at http://127.0.0.1:{gateway.port}: not ready: editor"
    assert [line.split()[0] for line in lines[:3]] == ["services", "gateway", "worker"]
    assert f"pid {os.getpid()}, since " in lines[0]
    assert str(tmp_path / "state") in ended.stdout


def test_status_as_json_is_one_object_and_ready_ends_in_zero(gateway: FakeGateway, tmp_path: Path) -> None:
    (tmp_path / "state" / "calls").write_text("\n".join(LASTING), encoding="utf-8")
    ended = run("status", "--json")
    assert ended.exit_code == 0
    told = json.loads(ended.stdout)
    assert (told["ready"], told["waiting_for"], told["gateway_version"]) == (True, None, "0.0.1")
    assert [process["pid"] for process in told["processes"]] == [os.getpid()] * 3


def test_status_tells_what_the_store_keeps_and_has_evicted(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = StoreUse(budget_bytes=50 * 10**9, derived_bytes=12_300_000_000, evictions=3)
    told = status_of(open_stack(None)).model_copy(update={"store": use})
    monkeypatch.setattr(commands, "status_of", lambda stack: told)
    assert "  store        12.3 GB of 50.0 GB that can be computed again, 3 evicted" in run("status").stdout


def test_status_tells_how_many_operations_on_images_the_suite_has(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = status_of(open_stack(None))
    assert "operations" not in run("status").stdout
    own = told.model_copy(update={"operations": ["rotation", "crop"]})
    monkeypatch.setattr(commands, "status_of", lambda stack: own)
    assert "  operations   2 on images" in run("status").stdout


def test_status_of_an_older_gateway_asks_for_a_restart(gateway: FakeGateway) -> None:
    assert "restart with `counterpose down` and `counterpose up`" in run("status").stdout


def test_up_tells_the_address_and_what_to_do_next(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "left_running", lambda self: None)
    ended = run("up")
    assert ended.exit_code == 0
    assert f"Counterpose answers at http://127.0.0.1:{gateway.port}" in ended.stdout
    assert f"export COUNTERPOSE_URL=http://127.0.0.1:{gateway.port}" in ended.stdout
    assert "counterpose down\n" in ended.stdout


def test_a_folder_that_was_named_is_named_again_in_the_next_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Stack, "left_running", lambda self: None)
    shown = run("up", "--state", "my state").stdout
    assert "counterpose down --state 'my state'" in shown
    assert "COUNTERPOSE_URL" not in shown


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "0 s"), (59.6, "59 s"), (61.0, "1 min 1 s"), (3 * 3600 + 120.0, "3 h 2 min")]
)
def test_a_span_is_written_in_words(seconds: float, words: str) -> None:
    assert commands.span(seconds) == words


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the demo's stack, which is not really started."""
    steps: list[str] = []

    @contextmanager
    def temporarily(self: Stack, images: Images) -> Iterator[None]:
        steps.append("started")
        images(self.datasets())
        try:
            yield
        finally:
            steps.append("stopped")

    monkeypatch.setattr(Stack, "temporarily", temporarily)
    return steps


@pytest.mark.parametrize(("state", "code"), [("completed", ExitCode.PASSED), ("failed", ExitCode.INCOMPLETE)])
def test_the_demo_writes_figures_and_report_and_tells_where(
    state: RunState,
    code: ExitCode,
    temporary: list[str],
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    told = ok(an_estimate().model_dump_json())
    script = play(
        told, run_answer(), run_answer(state), summary_answer(a_summary(steady=figure())), ok("<html>")
    )
    rendered: list[tuple[object, ...]] = []
    monkeypatch.setattr(DemoDatasets, "register_demo", lambda _, *given: rendered.append(given))
    ended = run("demo", "--out", "deep/out")
    assert (ended.exit_code, temporary) == (code, ["started", "stopped"])
    assert "4 changes tested together" in ended.stderr
    asked = json.loads(script.seen[1].content)
    assert (asked["dataset"], len(asked["classifiers"]), asked["seed"]) == (DATASET, 2, 0)
    assert rendered == [(DATASET, PER_CLASS, CLASSES, OTHERS)]
    assert (tmp_path / "deep/out/report.html").read_text(encoding="utf-8") == "<html>"
    assert json.loads((tmp_path / "deep/out/summary.json").read_text(encoding="utf-8"))
    assert (tmp_path / "deep/out/report.html").as_uri() in ended.stdout
    assert ended.stdout.splitlines()[-3].startswith("Next, your own images")
    assert "summing up" in ended.stderr


def test_the_demo_of_interfaces_learns_then_benchmarks_the_zoo_by_token_and_by_name(
    temporary: list[str], play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepared: list[DemoDatasets] = []
    shown = dataclasses.replace(DEMOS[Method.DATASET_INTERFACE], images=prepared.append)
    monkeypatch.setitem(DEMOS, Method.DATASET_INTERFACE, shown)
    names = ("zoo-vit", "other")
    known = ok({"classifiers": [{"spec": name, "architecture": "a", "name": name} for name in names]})
    script = play(
        interface_answer(), interface_answer("completed"), known, benchmark_answer(),
        benchmark_answer("completed"), ok(an_interface_summary().model_dump_json(by_alias=True)),
        benchmark_summary_answer(a_benchmark_summary()), ok("<html>"),
    )  # fmt: skip
    ended = run("demo", "dataset-interface")
    assert (ended.exit_code, temporary, len(prepared)) == (0, ["started", "stopped"], 1)
    learned, benchmarked = (json.loads(script.seen[at].content) for at in (0, 3))
    assert (learned["dataset"], learned["seed"]) == ("user", 0)
    assert (benchmarked["classifiers"], benchmarked["image_sources"]) == (
        ["zoo-vit"],
        ["token", "class-name"],
    )
    told = json.loads((tmp_path / "counterpose-demo/interface.json").read_text(encoding="utf-8"))
    assert set(told) == {"interface", "benchmark", "seconds"}
    assert (tmp_path / "counterpose-demo/interface.html").as_uri() in ended.stdout


def test_the_demo_of_hunts_needs_no_image_and_writes_what_it_found(
    temporary: list[str], play: Play, tmp_path: Path
) -> None:
    script = play(
        *(ok(a_hunt_run(state).model_dump_json()) for state in ("queued", "completed")),
        ok(a_hunt_summary("Flies among flowers are bees.").model_dump_json()),
        ok("<html>"),
    )
    ended = run("demo", "bug-hunt")
    # The hunt of the script tried no description.
    assert (ended.exit_code, temporary) == (ExitCode.INCONCLUSIVE, ["started", "stopped"])
    asked = json.loads(script.seen[0].content)
    assert (asked["labels"], len(asked["classifiers"]), asked["seed"]) == (["fly"], 2, 0)
    told = json.loads((tmp_path / "counterpose-demo/hunt.json").read_text(encoding="utf-8"))
    assert told["hunt"]["verdict"] == "Flies among flowers are bees."
    assert "Flies among flowers are bees." in ended.stdout
    assert (tmp_path / "counterpose-demo/hunt.html").as_uri() in ended.stdout
    assert not (tmp_path / "state/datasets").exists()


@pytest.mark.parametrize("method", list(Method))
def test_a_demo_ends_with_commands_that_lead_on_to_the_user_s_own_images(method: Method) -> None:
    commands = [
        line.partition("#")[0].strip()
        for line in _onward(DEMOS[method], Path("my state"), stopped=True).splitlines()
        if line.startswith("  ")
    ]
    assert commands[0].startswith("counterpose up --state 'my state'")
    assert commands[1] == "counterpose down --state 'my state'"
    known: Any = typer.main.get_command(app)
    for words in map(shlex.split, commands):
        options = {option for one in known.commands[words[1]].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_a_demo_on_a_counterpose_that_goes_on_does_not_say_that_it_has_stopped() -> None:
    going_on = _onward(DEMOS[Method.STRESS_TEST], None, stopped=False)
    assert going_on.startswith("Next, your own images")
    assert "counterpose up" not in going_on


def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(
    temporary: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    ended = run("demo", "--out", "file/out")
    assert ended.exit_code == ExitCode.USAGE
    assert "'file/out' cannot be made: Not a directory" in ended.stderr
    assert temporary == []
