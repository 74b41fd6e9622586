"""The launcher without Ray: settings, Serve config, secret, port and state file."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from counterpose_core.errors import BackendUnavailable
from counterpose_core.weights_reading import WeightsReading, write_reading
from counterpose_services.serving import launcher
from counterpose_services.serving.cluster import (
    STATE_FILE,
    ensure_secret,
    require_free_port,
    running,
    services_url,
)
from counterpose_services.serving.serve_config import import_path, serve_config
from counterpose_services.settings import SERVICES, ServiceSettings

READING = WeightsReading(
    service="editor", file="unet/x.safetensors", read_bytes=12 * 10**8, size_bytes=34 * 10**8
)
SECRET = "a secret of many characters"


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings.model_validate({"state_dir": tmp_path / "state"})


def config_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert launcher.main(["config", *arguments]) == 0
    printed: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return printed


def test_serve_accepts_the_printed_config(capsys: pytest.CaptureFixture[str]) -> None:
    config = ServeDeploySchema.model_validate(config_of(capsys, "--suite", "lance", "--port", "9999"))
    assert [one.name for one in config.applications] == list(SERVICES)
    assert [one.route_prefix for one in config.applications] == [f"/{name}" for name in SERVICES]
    assert config.http_options.port == 9999
    assert config.http_options.host == "127.0.0.1"
    assert all(one.args["suite"] == "lance" for one in config.applications)


def test_a_single_service_can_be_requested(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(capsys, "--only", "scorer", "--only", "editor")
    assert [one["name"] for one in config["applications"]] == ["scorer", "editor"]


def test_a_suite_without_a_perturber_starts_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(capsys, "--suite", "dataset-interfaces")
    assert [one["name"] for one in config["applications"]] == ["captioner", "editor", "scorer", "classifiers"]


def test_an_error_names_the_unknown_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["up", "--suite", "absent"]) == 3
    assert "'absent'" in capsys.readouterr().err


def test_the_config_never_contains_the_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_SECRET", SECRET)
    assert launcher.main(["config"]) == 0
    assert SECRET not in capsys.readouterr().out


@pytest.mark.parametrize("service", SERVICES)
def test_every_import_path_resolves_to_a_builder(service: Any) -> None:
    module, _, builder = import_path(service).partition(":")
    assert callable(getattr(importlib.import_module(module), builder))


def test_the_arguments_in_the_config_round_trip_to_settings(settings: ServiceSettings) -> None:
    arguments = serve_config(settings)["applications"][0]["args"]
    assert ServiceSettings.model_validate(json.loads(json.dumps(arguments))) == settings


def test_a_printed_config_has_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["config", "--suite", "lance"]) == 0
    file = tmp_path / "serve.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert launcher.main(["config", "--check", str(file)]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_a_changed_config_is_refused_with_every_reason_before_it_is_deployed(
    settings: ServiceSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = serve_config(settings)
    captioner, perturber, editor, scorer, classifiers = config["applications"]
    captioner["name"] = "painter"
    perturber["import_path"] = "counterpose_services.perturber:build"
    editor["args"] = {"devise": "cuda"}
    scorer["args"] = {"editor": {"max_replicas": 0}}
    config["applications"] += [classifiers]
    config["proxy_locations"] = "EveryNode"
    file = tmp_path / "serve.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert launcher.main(["config", "--check", str(file)]) == 1
    told = capsys.readouterr().out
    for reason in (
        "'painter' is no service; the services are captioner, perturber, editor, scorer, classifiers",
        "perturber: import_path is 'counterpose_services.perturber:build'; write",
        "editor: args/devise: Extra inputs are not permitted",
        "scorer: args/editor/max_replicas: Input should be greater than or equal to 1",
        "the application 'classifiers' is there 2 times",
    ):
        assert reason in told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "it is not YAML"),
        ("- editor", "it is not a Serve config"),
        ("a: 1", "no list `applications`"),
    ],
)
def test_what_is_no_config_is_refused(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text, encoding="utf-8")
    assert launcher.main(["config", "--check", str(file)]) == 1
    assert reason in capsys.readouterr().out


def test_a_secret_is_made_once_and_readable_only_by_its_owner(settings: ServiceSettings) -> None:
    ensure_secret(settings)
    made = settings.shared_secret()
    assert len(made) == 64
    assert stat.S_IMODE(settings.secret_file.stat().st_mode) == 0o600
    ensure_secret(settings)
    assert settings.shared_secret() == made


def test_a_provided_secret_is_not_stored(settings: ServiceSettings) -> None:
    given = {"secret": SECRET, "state_dir": settings.state_dir}
    ensure_secret(ServiceSettings.model_validate(given))
    assert not settings.secret_file.exists()


def test_services_beyond_loopback_make_up_no_secret(tmp_path: Path) -> None:
    settings = ServiceSettings.model_validate({"state_dir": tmp_path, "host": "0.0.0.0"})
    with pytest.raises(BackendUnavailable, match="COUNTERPOSE_SECRET"):
        ensure_secret(settings)
    assert not settings.secret_file.exists()


def test_a_port_in_use_is_detected_before_anything_starts(settings: ServiceSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = settings.model_copy(update={"port": listener.getsockname()[1]})
        with pytest.raises(BackendUnavailable, match="already in use"), running(taken, SERVICES):
            pass
    require_free_port(taken)


def test_addresses_are_formatted_for_urls(settings: ServiceSettings) -> None:
    assert services_url(settings) == "http://127.0.0.1:8101"
    assert services_url(settings.model_copy(update={"host": "::1"})) == "http://[::1]:8101"


def test_invalid_settings_are_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_SERVICES_THREADS", "many")
    assert launcher.main(["config"]) == 2
    assert "threads" in capsys.readouterr().err


def test_stopping_nothing_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert "no services" in capsys.readouterr().out


def test_the_record_of_a_dead_process_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    (tmp_path / STATE_FILE).write_text(json.dumps({"pid": dead, "url": "x"}), encoding="utf-8")
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert "no services" in capsys.readouterr().out


class Child:
    """Replaces the process that --detach starts: it writes its record, or dies."""

    pid = os.getpid()

    def __init__(self, state: Path, *, dies: bool = False, silent: bool = False) -> None:
        self.state, self.dies, self.silent = state, dies, silent
        self.arguments: list[str] = []

    def __call__(self, arguments: list[str], **_: object) -> Child:
        self.arguments = arguments
        if not self.dies and not self.silent:
            record = {"pid": self.pid, "url": "http://127.0.0.1:8101", "services": ["scorer"]}
            (self.state / STATE_FILE).write_text(json.dumps(record), encoding="utf-8")
        return self

    def poll(self) -> int | None:
        return 3 if self.dies else None


@pytest.fixture
def weightless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks of weights, licences and memory pass."""
    monkeypatch.setattr(launcher, "require_room", lambda *_: None)
    monkeypatch.setattr(launcher, "require_licences", lambda *_: None)
    monkeypatch.setattr(launcher, "require_weights", lambda *_: None)


def test_detached_services_start_with_the_same_arguments(
    tmp_path: Path, weightless: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = Child(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", child)
    given = ["--suite", "lance", "--port", "9999", "--state-dir", str(tmp_path), "--only", "scorer"]
    assert launcher.main(["up", "--detach", *given]) == 0
    assert child.arguments[1:3] == ["-m", "counterpose_services.serving.launcher"]
    assert child.arguments[3:] == ["up", *given]
    assert "services answer at http://127.0.0.1:8101" in capsys.readouterr().out


def test_a_detached_start_that_fails_names_the_log(
    tmp_path: Path, weightless: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Child(tmp_path, dies=True))
    assert launcher.main(["up", "--detach", "--state-dir", str(tmp_path)]) == 3
    assert str(tmp_path / "services.log") in capsys.readouterr().err


def test_a_detached_start_without_progress_is_given_up(
    tmp_path: Path, weightless: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Child(tmp_path, silent=True))
    monkeypatch.setattr(launcher, "START_TIMEOUT_S", 0.05)
    monkeypatch.setattr(launcher, "POLL_S", 0.01)
    write_reading(tmp_path, "editor-1", READING)
    assert launcher.main(["up", "--detach", "--state-dir", str(tmp_path)]) == 3
    told = capsys.readouterr()
    assert told.out == "editor: reading unet/x.safetensors, 1.2 of 3.4 GB\n"
    assert "nothing moved on for 0.05 s" in told.err


def test_the_record_of_another_launcher_is_not_mistaken_for_the_child_s(
    tmp_path: Path, weightless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"pid": os.getppid(), "url": "http://127.0.0.1:1", "services": []}
    (tmp_path / STATE_FILE).write_text(json.dumps(other), encoding="utf-8")
    monkeypatch.setattr(subprocess, "Popen", Child(tmp_path, dies=True))
    assert launcher.main(["up", "--detach", "--state-dir", str(tmp_path)]) == 3


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_foreground_services_run_until_a_signal(
    sent: signal.Signals,
    tmp_path: Path,
    weightless: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []

    @contextmanager
    def around(settings: ServiceSettings, services: Sequence[str]) -> Iterator[None]:
        seen.extend(services)
        yield
        seen.append("stopped")

    def end_at_once(number: int, handler: Any) -> None:
        if number == sent:
            handler(number, None)

    monkeypatch.setattr(launcher, "running", around)
    monkeypatch.setattr(signal, "signal", end_at_once)
    assert launcher.main(["up", "--only", "editor", "--state-dir", str(tmp_path)]) == 0
    assert seen == ["editor", "stopped"]
    assert "services answer at http://127.0.0.1:8101" in capsys.readouterr().out


def test_down_stops_the_recorded_process_and_waits_for_its_record_to_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / STATE_FILE
    file.write_text(json.dumps({"pid": 4242, "url": "x"}), encoding="utf-8")
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        if number == signal.SIGTERM:
            file.unlink()

    monkeypatch.setattr(os, "kill", kill)
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert (4242, signal.SIGTERM) in sent
    assert {pid for pid, _ in sent} == {4242}


def test_an_error_names_the_process_that_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / STATE_FILE).write_text(json.dumps({"pid": 4242, "url": "x"}), encoding="utf-8")
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(launcher, "STOP_TIMEOUT_S", 0.0)
    monkeypatch.setattr(launcher, "POLL_S", 0.0)
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 3
    assert "process 4242 did not stop" in capsys.readouterr().err
