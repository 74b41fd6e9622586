"""What adds an extra, by the way that an installation came by; the programs without their extras."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterpose_core import installation
from counterpose_core.installation import DISTRIBUTION, adding

WHEEL = "file:///dist/product-0.1.0-py3-none-any.whl"


def record(folder: Path, address: dict[str, Any] | None) -> None:
    """Write what an installer records of the distribution, with the address that it came from."""
    about = folder / f"{DISTRIBUTION}-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 0.1.0\n")
    if address is not None:
        (about / "direct_url.json").write_text(json.dumps(address))


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        (
            {"url": "file:///home/me/my%20clone", "dir_info": {"editable": True}},
            "run pip install --editable '/home/me/my clone[cli]'",
        ),
        ({"url": "file:///home/me/clone", "dir_info": {}}, "run pip install '/home/me/clone[cli]'"),
        ({"url": WHEEL, "archive_info": {}}, f"run pip install '{DISTRIBUTION}[cli] @ {WHEEL}'"),
        (
            {"url": "https://example.com/a.whl", "archive_info": {"hash": "sha256=0"}},
            f"run pip install '{DISTRIBUTION}[cli] @ https://example.com/a.whl'",
        ),
        (None, "install Counterpose again, from its wheel or its clone, with the extra 'cli'"),
    ],
)
def test_an_extra_is_added_as_the_installation_came_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: dict[str, Any] | None, remedy: str
) -> None:
    record(tmp_path, address)
    monkeypatch.syspath_prepend(tmp_path)
    assert adding("cli") == remedy


def test_code_that_nobody_installed_names_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    assert adding("cli").startswith("install Counterpose again")


@pytest.mark.parametrize(
    ("program", "package", "extra"),
    [("command", "typer", "cli"), ("gateway", "fastapi", "gateway"), ("services", "ray", "services")],
)
def test_a_program_without_its_extra_ends_with_one_sentence(
    program: str,
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def spec(name: str) -> ModuleSpec | None:
        return None if name == package else ModuleSpec(name, None)

    monkeypatch.setattr(installation, "find_spec", spec)
    with pytest.raises(SystemExit) as ended:
        getattr(installation, program)()
    assert ended.value.code == 2
    out, told = capsys.readouterr()
    assert (out, told) == ("", f"this needs {package}, which is not installed: {adding(extra)}\n")


@pytest.mark.parametrize(
    ("program", "module"),
    [
        ("command", "counterpose._cli.main"),
        ("gateway", "counterpose_gateway.main"),
        ("services", "counterpose_services.serving.launcher"),
    ],
)
def test_a_program_ends_with_the_exit_code_of_its_main(
    program: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(main=lambda: 3))
    assert getattr(installation, program)() == 3
