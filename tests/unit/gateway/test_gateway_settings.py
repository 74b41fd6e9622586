"""Settings: read once, frozen, refusing what is unsafe."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from counterpose_core.types import is_loopback
from counterpose_gateway.settings import GatewaySettings, settings_from, settings_of_process

KEY = "a-key-of-enough-characters"


def test_the_defaults_serve_one_machine_on_loopback() -> None:
    settings = settings_from({})
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.database_url == "sqlite:///.counterpose/ledger.db"
    assert settings.store_url == ".counterpose/store"
    assert settings.service_url("editor") == "http://127.0.0.1:8101/editor"
    assert settings == GatewaySettings()


def test_the_state_folder_and_each_of_its_parts_can_be_moved() -> None:
    settings = settings_from(
        {"COUNTERPOSE_STATE_DIR": "/state", "COUNTERPOSE_STORE_URL": "s3://bucket/store"}
    )
    assert settings.database_url == "sqlite:////state/ledger.db"
    assert settings.secret_file == Path("/state/secret")
    assert settings.store_url == "s3://bucket/store"


def test_arguments_override_the_environment() -> None:
    environ = {"COUNTERPOSE_PORT": "9000", "COUNTERPOSE_CONCURRENCY": "7"}
    settings = settings_from(environ, port=9001, concurrency=None)
    assert (settings.port, settings.concurrency) == (9001, 7)


def test_every_setting_can_be_set_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOSE_API_KEYS", f"{KEY},{KEY}-2")
    monkeypatch.setenv("COUNTERPOSE_HOST", "0.0.0.0")
    monkeypatch.setenv("COUNTERPOSE_SUITE", "lance")
    settings = settings_of_process()
    assert [key.get_secret_value() for key in settings.api_keys] == [KEY, f"{KEY}-2"]
    assert (settings.host, settings.suite) == ("0.0.0.0", "lance")


@pytest.mark.fault("T5")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "gateway.example"])
def test_listening_beyond_loopback_needs_a_key(host: str) -> None:
    with pytest.raises(ValidationError, match="COUNTERPOSE_API_KEYS"):
        settings_from({"COUNTERPOSE_HOST": host})
    assert settings_from({"COUNTERPOSE_HOST": host, "COUNTERPOSE_API_KEYS": KEY}).host == host


@pytest.mark.fault("T9")
@pytest.mark.parametrize(
    "environ",
    [
        {"COUNTERPOSE_API_KEYS": "short"},
        {"COUNTERPOSE_ADMIN_KEYS": "short"},
        {"COUNTERPOSE_ADMIN_KEYS": KEY, "COUNTERPOSE_API_KEYS": KEY},
        {"COUNTERPOSE_ADMIN_PORT": "9090", "COUNTERPOSE_ADMIN_HOST": "0.0.0.0"},
        {"COUNTERPOSE_ADMIN_PORT": "8080"},
        {"COUNTERPOSE_PORT": "0"},
        {"COUNTERPOSE_PORT": "eighty"},
        {"COUNTERPOSE_CONCURRENCY": "0"},
        {"COUNTERPOSE_LEASE_SECONDS": "0"},
    ],
)
def test_unsafe_or_invalid_values_are_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        settings_from(environ)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"COUNTERPOSE_API_KEYS": KEY}, False),
        ({"COUNTERPOSE_API_KEYS": KEY, "COUNTERPOSE_HOST": "0.0.0.0"}, False),
        ({"COUNTERPOSE_SERVICES_URL": "http://{service}.counterpose:8000/"}, False),
        ({"COUNTERPOSE_API_KEYS": KEY, "COUNTERPOSE_ALLOW_FUNCTIONS": "true"}, True),
        ({"COUNTERPOSE_ALLOW_FUNCTIONS": "false"}, False),
    ],
)
def test_functions_are_allowed_where_only_this_machine_can_ask(
    environ: dict[str, str], expected: bool
) -> None:
    assert settings_from(environ).functions_allowed is expected


def test_each_service_can_have_its_own_address() -> None:
    settings = settings_from({"COUNTERPOSE_SERVICES_URL": "http://{service}.counterpose:8000/"})
    assert settings.service_url("editor") == "http://editor.counterpose:8000"


def test_the_secret_is_read_from_its_file_and_never_printed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2-hunter2\n", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    assert settings_from({"COUNTERPOSE_STATE_DIR": str(tmp_path)}).shared_secret() == "hunter2-hunter2"
    given = settings_from({"COUNTERPOSE_SECRET": "hunter2-hunter2"})
    assert given.shared_secret() == "hunter2-hunter2"
    assert "hunter2" not in repr(given)


def test_a_missing_secret_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="COUNTERPOSE_SECRET_FILE"):
        settings_from({"COUNTERPOSE_STATE_DIR": str(tmp_path)}).shared_secret()


def test_settings_are_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        GatewaySettings().port = 1  # type: ignore[misc]  # the assignment is what is tested


@pytest.mark.parametrize(
    "wrong", ["*", "10.0.0.5/8", "proxy.example", "10.0.0.0/8;10.1.0.0/16", "127.0.0.1:80", "127.1"]
)
def test_a_proxy_that_is_no_address_is_refused_instead_of_being_passed_over(wrong: str) -> None:
    with pytest.raises(ValueError, match="COUNTERPOSE_TRUSTED_PROXIES has"):
        settings_from({"COUNTERPOSE_TRUSTED_PROXIES": f"10.1.0.0/16,{wrong}"})
    told = settings_from({"COUNTERPOSE_TRUSTED_PROXIES": "10.1.0.0/16, ::1"}).trusted_proxies
    assert told == ("10.1.0.0/16", "::1/128")
