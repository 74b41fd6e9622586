"""README and documentation: short, linked, and consistent with the SDK and the command line."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from counterpose import Client, DatasetInterface, GeneratedImages, ShiftBenchmark, StressTest
from counterpose._cli import main
from counterpose._sync.dataset_interfaces import DatasetInterfaces
from counterpose._sync.datasets import Datasets
from counterpose._sync.shift_benchmarks import ShiftBenchmarks
from counterpose._sync.stress_tests import StressTests

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
GUIDES = ("start", "tutorials", "methods", "how-to", "concepts")
PAGES = [
    ROOT / "README.md",
    DOCS / "index.md",
    *(page for guide in GUIDES for page in sorted((DOCS / guide).glob("*.md"))),
]
LINKED = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "llms.txt",
    ROOT / "services/README.md",
    DOCS / "papers.md",
]
MOST_README_LINES = 150
MOST_README_WORDS = 1200
METHODS: dict[str, Callable[..., Any]] = {
    "client.datasets.upload": Datasets.upload,
    "client.stress_tests.create": StressTests.create,
    "client.dataset_interfaces.create": DatasetInterfaces.create,
    "client.shift_benchmarks.create": ShiftBenchmarks.create,
    "interface.generate": DatasetInterface.generate,
    "images.save": GeneratedImages.save,
    "run.save_report": StressTest.save_report,
    "run.wait": StressTest.wait,
    "benchmark.export": ShiftBenchmark.export,
    "benchmark.save_report": ShiftBenchmark.save_report,
    "benchmark.summary": ShiftBenchmark.summary,
}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def calls(page: Path) -> Iterator[tuple[str, ast.Call]]:
    """Calls in a page's Python blocks, by the name they are written with."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func), node


def commands(page: Path) -> list[tuple[str, str]]:
    """The counterpose commands in a page's code blocks, with what follows each."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^(?:[A-Z_]+=\S+ )*counterpose ([a-z-]+)(.*)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_link_inside_the_repository_has_a_target(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_is_one_page_with_an_image_in_its_first_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_README_LINES
    assert len(text.split()) <= MOST_README_WORDS
    assert any(line.startswith("![") for line in text.splitlines()[:12])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_call_on_a_page_matches_the_sdk(page: Path) -> None:
    for name, call in calls(page):
        if name in METHODS:
            given = {keyword.arg: 0 for keyword in call.keywords if keyword.arg}
            inspect.signature(METHODS[name]).bind(None, *call.args, **given)
        if name == "Client":
            inspect.signature(Client).bind(*call.args)


def require_options(name: str, rest: str) -> None:
    """Fail unless the command exists and has the options that follow it."""
    known: dict[str, Any] = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]  # a group
    command = known[name]
    if hasattr(command, "commands") and rest.split():
        command = command.commands[rest.split()[0]]
    options = {each for one in command.params for each in (*one.opts, *one.secondary_opts)}
    assert sorted(set(re.findall(r"(?<!\S)--[a-z-]+", rest)) - options) == [], name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    for name, rest in commands(page):
        require_options(name, rest)


@pytest.mark.parametrize("folder", ["clients/counterpose", "gateway", "services"])
def test_every_command_that_the_code_suggests_exists_with_its_options(folder: str) -> None:
    files = [each for ending in ("py", "j2") for each in (ROOT / folder).rglob(f"*.{ending}")]
    suggested = r"""(?:[`>]|f\")counterpose ([a-z-]+)([^`"'<\n]*)"""
    found = {told for each in files for told in re.findall(suggested, each.read_text(encoding="utf-8"))}
    assert found
    for name, rest in found:
        require_options(name, rest)


def test_the_pages_cover_the_sdk_and_most_commands() -> None:
    assert {name for page in PAGES for name, _ in calls(page)} >= set(METHODS)
    assert {name for page in PAGES for name, _ in commands(page)} >= {
        "stress-test", "dataset-interface", "generate", "shift-benchmark", "export", "apply", "thresholds",
        "runs", "show", "open",
    }  # fmt: skip


def test_every_page_is_in_the_navigation() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    def listed(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for value in entry.values():
                yield from listed(value)
        else:
            for each in entry:
                yield from listed(each)

    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(listed(navigation)) == pages


def test_the_reference_pages_match_the_code() -> None:
    check = [sys.executable, str(DOCS / "reference_pages.py"), "--check"]
    shown = subprocess.run(check, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
