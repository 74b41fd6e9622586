"""The launcher without Ray: settings, Serve config, secret, port and state file."""

from __future__ import annotations

import importlib
import io
import json
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from counterpose_core.errors import BackendUnavailable
from counterpose_core.weights_reading import WeightsReading, write_reading
from counterpose_services.models import weight_loading
from counterpose_services.serving import launcher
from counterpose_services.serving.cluster import (
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


def test_a_suite_whose_servers_are_not_named_is_refused_before_any_verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_EDITOR_MIN_REPLICAS", "0")
    assert launcher.main(["up", "--suite", "api"]) == 2
    assert "asks servers of yours; set COUNTERPOSE_LANGUAGE_SERVER" in capsys.readouterr().err
    monkeypatch.delenv("COUNTERPOSE_EDITOR_MIN_REPLICAS")
    assert launcher.main(["up", "--suite", "api"]) == 3
    assert "asks servers of yours; set COUNTERPOSE_LANGUAGE_SERVER" in capsys.readouterr().err


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
        "editor: args/devise: no such field; correct its name, or leave it out",
        "scorer: args/editor/max_replicas: must be greater than or equal to 1",
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


@pytest.fixture
def weightless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks of weights, licences and memory pass."""
    monkeypatch.setattr(launcher, "require_room", lambda *_: None)
    monkeypatch.setattr(launcher, "require_licences", lambda *_: None)
    monkeypatch.setattr(launcher, "require_weights", lambda *_: None)


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


def test_a_start_tells_each_file_of_weights_once(
    tmp_path: Path, weightless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by capsys, which loses what another thread writes as it is read.
    written = io.StringIO()

    @contextmanager
    def around(settings: ServiceSettings, services: Sequence[str]) -> Iterator[None]:
        write_reading(tmp_path, "editor-1", READING)
        end = time.monotonic() + 60.0
        while not written.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)
        yield

    def end_at_once(number: int, handler: Any) -> None:
        # Those who watch over tests set handlers, too.
        if number == signal.SIGTERM:
            handler(number, None)

    monkeypatch.setattr(weight_loading, "LOOK_S", 0.01)
    monkeypatch.setattr(launcher, "running", around)
    monkeypatch.setattr(signal, "signal", end_at_once)
    monkeypatch.setattr(sys, "stdout", written)
    assert launcher.main(["up", "--only", "editor", "--state-dir", str(tmp_path)]) == 0
    assert written.getvalue().splitlines() == [
        "editor: reading unet/x.safetensors, 1.2 of 3.4 GB",
        "services answer at http://127.0.0.1:8101",
    ]


@pytest.mark.parametrize("given", [["down"], ["up", "--detach"]])
def test_only_the_whole_stack_is_left_running(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        launcher.main(given)
    assert refused.value.code == 2
    assert "usage: counterpose-services" in capsys.readouterr().err
