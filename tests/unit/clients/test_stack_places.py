"""Where a local Counterpose keeps its state, which programs it runs, and what it tells them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from counterpose._stack import Programs, Stack, default_state
from counterpose._stack import programs as programs_module
from counterpose._stack.environment import environment_of
from counterpose._stack.state_folder import prepare
from counterpose_core.errors import InvalidRequest
from counterpose_core.installation import adding


def test_the_state_lies_where_the_variable_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_state({"COUNTERPOSE_STATE_DIR": "here", "XDG_DATA_HOME": "/data"}) == tmp_path / "here"


@pytest.mark.parametrize(
    ("environ", "platform", "found"),
    [
        ({}, "linux", "home/.local/share/counterpose"),
        ({"COUNTERPOSE_STATE_DIR": ""}, "linux", "home/.local/share/counterpose"),
        ({"XDG_DATA_HOME": "relative"}, "linux", "home/.local/share/counterpose"),
        ({}, "darwin", "home/Library/Application Support/counterpose"),
    ],
)
def test_the_state_lies_in_the_user_s_own_data_folder(
    environ: dict[str, str], platform: str, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_state(environ, platform) == tmp_path / found


def test_the_data_folder_of_the_xdg_rules_is_used(tmp_path: Path) -> None:
    assert default_state({"XDG_DATA_HOME": str(tmp_path)}, "linux") == tmp_path / "counterpose"


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match=r"the state folder '.*file/state' cannot be made: Not a dir"):
        prepare(tmp_path / "file" / "state")


def install(folder: Path, *names: str) -> Path:
    """Put empty programs into a folder."""
    folder.mkdir()
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Python whose environment has the packages of all extras; PATH is empty."""
    folder = install(tmp_path / "bin", "python")
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(programs_module, "find_spec", lambda name: object())
    return folder


def test_programs_of_this_environment_are_taken_first(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = install(tmp_path / "other", "counterpose-gateway", "counterpose-services")
    monkeypatch.setenv("PATH", str(other))
    for name in ("counterpose-gateway", "counterpose-services"):
        (here / name).touch(mode=0o755)
    assert Programs.installed() == Programs(here, here / "python")


def test_programs_of_another_environment_are_found_on_the_path(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = install(tmp_path / "other", "counterpose-gateway", "counterpose-services")
    monkeypatch.setenv("PATH", str(other))
    assert Programs.installed() == Programs(other, other / "python")


@pytest.mark.parametrize("alone", [None, "counterpose-services", "counterpose-gateway"])
def test_missing_programs_name_the_command_that_installs_them(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: str | None
) -> None:
    monkeypatch.setenv("PATH", str(install(tmp_path / "other", *([alone] if alone else []))))
    with pytest.raises(InvalidRequest, match=re.escape(f"not installed: {adding('all')}")):
        Programs.installed()


def test_missing_packages_are_named_with_the_command_that_installs_them(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("counterpose-gateway", "counterpose-services"):
        (here / name).touch(mode=0o755)
    monkeypatch.setattr(
        programs_module, "find_spec", lambda name: None if name in ("ray", "torch") else object()
    )
    with pytest.raises(InvalidRequest, match=re.escape(f"not installed (ray, torch): {adding('all')}")):
        Programs.installed()


def test_what_is_not_installed_leaves_no_state_folder_behind(here: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="not installed"):
        Stack(tmp_path / "state").up()
    assert not (tmp_path / "state").exists()


def test_everything_listens_on_loopback_and_is_told_the_same_ports(tmp_path: Path) -> None:
    stack = Stack(tmp_path, port=1234, services_port=1235)
    told = stack.environment()
    assert stack.url == f"http://127.0.0.1:{told['COUNTERPOSE_PORT']}" == "http://127.0.0.1:1234"
    assert told["COUNTERPOSE_SERVICES_URL"] == f"http://127.0.0.1:{told['COUNTERPOSE_SERVICES_PORT']}"
    assert "COUNTERPOSE_HOST" not in told


def test_relative_paths_mean_the_caller_s_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Stack(Path("state")).environment()["COUNTERPOSE_STATE_DIR"] == str(tmp_path / "state")
    given = {
        "COUNTERPOSE_SUITE": "mine.toml",
        "COUNTERPOSE_SUITE_ROOT": "models",
        "COUNTERPOSE_SERVICES_LABEL_MAP": "",
        "COUNTERPOSE_SERVICES_IMAGES_KEY_FILE": "images.key",
    }
    told = environment_of(tmp_path, 1, 2, given)
    assert told["COUNTERPOSE_SUITE"] == str(tmp_path / "mine.toml")
    assert told["COUNTERPOSE_SUITE_ROOT"] == str(tmp_path / "models")
    assert told["COUNTERPOSE_SERVICES_LABEL_MAP"] == ""
    assert told["COUNTERPOSE_SERVICES_IMAGES_KEY_FILE"] == str(tmp_path / "images.key")


@pytest.mark.parametrize(("given", "suite"), [({}, "miniature"), ({"COUNTERPOSE_SUITE": "lance"}, "lance")])
def test_a_suite_s_name_is_no_path(given: dict[str, str], suite: str, tmp_path: Path) -> None:
    assert environment_of(tmp_path, 1, 2, given)["COUNTERPOSE_SUITE"] == suite


def test_a_module_is_run_without_the_current_folder_on_its_path(tmp_path: Path) -> None:
    command = Programs.of(tmp_path).module("counterpose_miniature.world", "out")
    assert command == [str(tmp_path / "python"), "-P", "-m", "counterpose_miniature.world", "out"]
