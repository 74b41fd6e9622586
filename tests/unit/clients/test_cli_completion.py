"""The shell completes runs, datasets, classifiers, presets; the help of a long command has headings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from counterpose._cli import main
from counterpose._sync.client import Client
from fakes.command import Play
from fakes.sdk import a_run, ok

NEW, OLD = "3fa8" + "0" * 28, "77aa" + "0" * 28
DATASET = {
    "name": "demo", "classes": ["bus"], "n_sources": 2, "digest": "d", "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


def completed(*words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    typed = ["counterpose", *words]
    variables = {
        "_COUNTERPOSE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": str(len(typed) - 1),
    }  # fmt: skip
    shown = CliRunner().invoke(main.app, env=variables, prog_name="counterpose")
    assert shown.stderr == ""
    return shown.stdout.split()


def listed_runs() -> list[httpx.Response]:
    runs = [json.loads(a_run("completed", 3, run).model_dump_json()) for run in (NEW, OLD)]
    return [ok({"runs": runs})]


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        (["show", ""], ["@last", "3fa80000", "77aa0000"]),
        (["show", "3"], ["3fa80000"]),
        (["runs", "wait", "@"], ["@last"]),
        (["prove", "7"], ["77aa0000"]),
        (["apply", "7"], ["77aa0000"]),
    ],
)
def test_runs_are_completed_by_the_beginnings_of_their_ids(
    play: Play, command: list[str], offered: list[str]
) -> None:
    script = play(*listed_runs())
    assert completed(*command) == offered
    assert script.seen[0].url.params["limit"] == "100"


def test_a_dataset_is_one_of_the_gateway_s_or_a_folder(play: Play, tmp_path: Path) -> None:
    (tmp_path / "den" / "within").mkdir(parents=True)
    (tmp_path / "defile").touch()
    play(ok({"datasets": [DATASET]}))
    assert completed("stress-test", "de") == ["demo", "den/"]
    play(ok({"datasets": [DATASET]}))
    assert completed("stress-test", "den/w") == ["den/within/"]
    play(ok({"datasets": [DATASET]}))
    assert completed("stress-test", "absent/w") == []


def test_classifiers_are_those_of_the_suite_and_the_prefixes(play: Play) -> None:
    spec = {"spec": "leaning-resnet", "name": "leaning-resnet"}
    for typed, offered in (("l", ["leaning-resnet", "local:"]), ("p", ["py:"])):
        play(ok({"classifiers": [spec]}))
        assert completed("stress-test", "demo", "--classifier", typed) == offered


def test_presets_are_those_that_the_gateway_names(play: Play) -> None:
    play(ok({"services": [], "presets": ["lance", "quick"]}))
    assert completed("stress-test", "demo", "--preset", "q") == ["quick"]


def test_the_gateway_that_is_asked_is_the_one_of_the_command(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    play(*listed_runs())
    connect = Client._connect

    def noted(self: Any, url: httpx.URL, *rest: Any) -> Any:
        asked.append(str(url))
        return connect(self, url, *rest)

    monkeypatch.setattr(Client, "_connect", noted)
    completed("show", "--url", "http://there:1", "3")
    assert asked == ["http://there:1"]


def test_without_a_gateway_nothing_is_offered_and_nothing_said(play: Play) -> None:
    script = play(httpx.ConnectError("refused"))
    assert completed("show", "3") == []
    assert len(script.seen) == 1


def headings(*names: str) -> dict[str, set[str]]:
    """The options of a command by their headings."""
    command: Any = typer.main.get_command(main.app)
    for name in names:
        command = command.commands[name]
    found: dict[str, set[str]] = {}
    for each in command.params:
        if each.param_type_name == "option":
            found.setdefault(each.rich_help_panel, set()).update(each.opts)
    return found


def test_the_options_of_a_stress_test_have_four_headings() -> None:
    found = headings("stress-test")
    assert list(found) == ["Run", "Edits", "Statistics", "Output"]
    assert {"--classifier", "--limit", "--dry-run", "--seed", "--url"} <= found["Run"]
    assert {"--edit-type", "--edit", "--preset"} <= found["Edits"]
    assert {"--confirm", "--threshold", "--max-drop", "--strict"} <= found["Statistics"]
    assert found["Output"] == {"--report", "--detach", "--json", "--junit"}


def test_every_option_of_a_long_command_has_a_heading_and_a_short_command_has_none() -> None:
    for name in ("stress-test", "bug-hunt", "adversarial-dataset"):
        assert None not in headings(name), name
    assert list(headings("prove")) == [None]
    assert {"Run", "Output"} <= set(headings("submit", "stress-test"))
