"""The launcher without Ray: settings, the Serve config, the secret, the port, the record of what runs."""

from __future__ import annotations

import importlib
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from faultline_core.errors import BackendUnavailable
from faultline_services import launcher
from faultline_services.cluster import STATE_FILE, ensure_secret, require_free_port, running, services_url
from faultline_services.serve_config import SERVICES, import_path, serve_config
from faultline_services.settings import ServiceSettings

SECRET = "a secret of many characters"


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings.model_validate({"state_dir": tmp_path / "state"})


def config_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert launcher.main(["config", *arguments]) == 0
    printed: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return printed


def test_the_printed_config_is_one_that_serve_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    config = ServeDeploySchema.model_validate(config_of(capsys, "--suite", "lance", "--port", "9999"))
    assert [one.name for one in config.applications] == list(SERVICES)
    assert [one.route_prefix for one in config.applications] == [f"/{name}" for name in SERVICES]
    assert config.http_options.port == 9999
    assert config.http_options.host == "127.0.0.1"
    assert all(one.args["suite"] == "lance" for one in config.applications)


def test_a_single_service_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(capsys, "--only", "scorer", "--only", "editor")
    assert [one["name"] for one in config["applications"]] == ["scorer", "editor"]


def test_a_suite_without_a_perturber_is_served_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(capsys, "--suite", "dataset-interfaces")
    assert [one["name"] for one in config["applications"]] == ["captioner", "editor", "scorer", "classifiers"]


def test_an_unknown_suite_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["up", "--suite", "absent"]) == 3
    assert "'absent'" in capsys.readouterr().err


def test_the_config_never_holds_the_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLINE_SECRET", SECRET)
    assert launcher.main(["config"]) == 0
    assert SECRET not in capsys.readouterr().out


@pytest.mark.parametrize("service", SERVICES)
def test_every_import_path_leads_to_a_builder(service: Any) -> None:
    module, _, builder = import_path(service).partition(":")
    assert callable(getattr(importlib.import_module(module), builder))


def test_the_arguments_in_the_config_are_settings_again(settings: ServiceSettings) -> None:
    arguments = serve_config(settings)["applications"][0]["args"]
    assert ServiceSettings.model_validate(json.loads(json.dumps(arguments))) == settings


def test_a_secret_is_made_once_and_only_its_owner_reads_it(settings: ServiceSettings) -> None:
    ensure_secret(settings)
    made = settings.shared_secret()
    assert len(made) == 64
    assert stat.S_IMODE(settings.secret_file.stat().st_mode) == 0o600
    ensure_secret(settings)
    assert settings.shared_secret() == made


def test_a_given_secret_is_not_written_down(settings: ServiceSettings) -> None:
    given = {"secret": SECRET, "state_dir": settings.state_dir}
    ensure_secret(ServiceSettings.model_validate(given))
    assert not settings.secret_file.exists()


def test_a_taken_port_is_found_before_anything_starts(settings: ServiceSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = settings.model_copy(update={"port": listener.getsockname()[1]})
        with pytest.raises(BackendUnavailable, match="taken"), running(taken, SERVICES):
            pass
    require_free_port(taken)


def test_addresses_are_written_as_urls_want_them(settings: ServiceSettings) -> None:
    assert services_url(settings) == "http://127.0.0.1:8101"
    assert services_url(settings.model_copy(update={"host": "::1"})) == "http://[::1]:8101"


def test_wrong_settings_are_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLINE_SERVICES_THREADS", "many")
    assert launcher.main(["config"]) == 2
    assert "threads" in capsys.readouterr().err


def test_nothing_to_stop_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert "no services" in capsys.readouterr().out


def test_a_record_of_a_dead_process_counts_as_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    (tmp_path / STATE_FILE).write_text(json.dumps({"pid": dead, "url": "x"}), encoding="utf-8")
    assert launcher.main(["down", "--state-dir", str(tmp_path)]) == 0
    assert "no services" in capsys.readouterr().out
