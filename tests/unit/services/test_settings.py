"""Settings of the services: the source of each value, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from counterpose_services.settings import OWN_PREFIX, SHARED_PREFIX, ServiceSettings, from_environment

SECRET = "a secret of many characters"


def settings(**values: object) -> ServiceSettings:
    return ServiceSettings.model_validate(values)


@pytest.mark.parametrize(
    ("variable", "value", "field", "found"),
    [
        ("COUNTERPOSE_SUITE", "lance", "suite", "lance"),
        ("COUNTERPOSE_SUITE_ROOT", "/models", "suite_root", Path("/models")),
        ("COUNTERPOSE_STORE_URL", "s3://bucket/store", "store_url", "s3://bucket/store"),
        ("COUNTERPOSE_SECRET_FILE", "/run/secret", "secret_file", Path("/run/secret")),
        ("COUNTERPOSE_SERVICES_DEVICE", "cuda:1", "device", "cuda:1"),
        ("COUNTERPOSE_SERVICES_DTYPE", "bfloat16", "dtype", "bfloat16"),
        ("COUNTERPOSE_SERVICES_NUM_GPUS", "0.5", "num_gpus", 0.5),
        ("COUNTERPOSE_SERVICES_MAX_QUEUE", "7", "max_queue", 7),
        ("COUNTERPOSE_SERVICES_MODELS_FOLDER", "/mine", "models_folder", Path("/mine")),
    ],
)
def test_each_variable_sets_its_field(
    variable: str, value: str, field: str, found: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(settings(), field) == found


@pytest.mark.parametrize("variable", ["COUNTERPOSE_SERVICES_SUITE", "COUNTERPOSE_PORT", "SERVICES_PORT"])
def test_a_variable_with_the_wrong_prefix_is_ignored(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings()
    monkeypatch.setenv(variable, "9")
    assert settings() == before


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOSE_SUITE", "")
    assert settings().suite == "miniature"


def test_only_known_fields_are_read_from_the_environment() -> None:
    environ = {
        f"{OWN_PREFIX}PORT": "1",
        f"{OWN_PREFIX}NONSENSE": "1",
        f"{SHARED_PREFIX}SUITE": "x",
        "HOME": "/",
    }
    assert from_environment({"port": None, "suite": None}, environ) == {"port": "1", "suite": "x"}


def test_store_and_secret_default_to_the_state_folder(tmp_path: Path) -> None:
    found = settings(state_dir=tmp_path)
    assert found.store_url == str(tmp_path / "store")
    assert found.secret_file == tmp_path / "secret"
    assert settings(state_dir=tmp_path, store_url="memory://x").store_url == "memory://x"


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = settings(state_dir="state", suite_root="models", store_url="images")
    assert (found.state_dir, found.suite_root) == (tmp_path / "state", tmp_path / "models")
    assert found.store_url == str(tmp_path / "images")


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 0},
        {"port": 70_000},
        {"device": "gpu"},
        {"device": "cuda:x"},
        {"dtype": "int8"},
        {"threads": 0},
        {"max_queue": 0},
        {"batch_wait_s": -0.1},
        {"request_timeout_s": 0},
        {"model_cache_bytes": -1},
        {"no_such_setting": 1},
        {"secret": "short"},
        {"min_replicas": 3, "max_replicas": 2},
    ],
)
def test_unsafe_or_unknown_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings(**wrong)


def test_settings_must_be_an_object() -> None:
    with pytest.raises(ValidationError):
        ServiceSettings.model_validate("miniature")


@pytest.mark.parametrize("field", ["port", "suite", "secret"])
def test_settings_are_immutable(field: str) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(settings(), field, None)


def test_the_secret_is_read_without_its_line_break(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    assert settings(state_dir=tmp_path).shared_secret() == SECRET


def test_an_explicit_secret_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("another one altogether", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    assert settings(state_dir=tmp_path, secret=SECRET).shared_secret() == SECRET


def test_a_missing_secret_names_the_variable_to_set(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="COUNTERPOSE_SECRET_FILE"):
        settings(state_dir=tmp_path).shared_secret()


@pytest.mark.fault("T9")
def test_unsafe_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="characters"):
        settings(secret="short")
    with pytest.raises(ValueError, match="min_replicas"):
        settings(min_replicas=2, max_replicas=1)
    with pytest.raises(ValueError, match=r"every port of this machine; name '127\.0\.0\.1:<port>'"):
        settings(oip_hosts=("models.test", "127.0.0.1"))
    with pytest.raises(ValueError, match="COUNTERPOSE_SECRET_FILE"):
        settings(secret=None, secret_file="/nowhere/secret").shared_secret()


def test_settings_never_print_their_secret() -> None:
    found = settings(secret=SECRET)
    assert SECRET not in repr(found)
    assert SECRET not in found.model_dump_json()
