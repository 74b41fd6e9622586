"""The repository's own rules: sizes, names, docstrings, what goes into the wheel."""

from __future__ import annotations

import ast
import fnmatch
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from faultline import Client, DatasetInterface, GeneratedPictures, ShiftBenchmark, StressTest, cli
from faultline.resources.dataset_interfaces import DatasetInterfaces
from faultline.resources.shift_benchmarks import ShiftBenchmarks
from faultline.resources.stress_tests import StressTests
from faultline_core.contract.runs import RunEvent

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
PACKAGES: list[str] = WHEEL["packages"]
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)($|_)")
REFUSED_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy")
MOST_LINES = 400
MOST_WHEEL_BYTES = 2_000_000


def modules(*roots: str) -> list[Path]:
    """Python files below the roots."""
    return sorted(path for root in roots for path in (ROOT / root).rglob("*.py"))


def too_long(paths: list[Path]) -> list[str]:
    """Files of more than ``MOST_LINES``, with their lengths."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return [f"{path.relative_to(ROOT)}: {lines}" for path, lines in lengths.items() if lines > MOST_LINES]


def in_wheel(path: Path) -> bool:
    """Whether hatch's excludes let a file of the packages into the wheel."""
    name = path.relative_to(ROOT).as_posix()
    ignored = "__pycache__" in path.parts
    excluded = any(
        fnmatch.fnmatch(path.name, pattern) or name.startswith(f"{pattern}/") for pattern in WHEEL["exclude"]
    )
    return path.is_file() and not ignored and not excluded


@pytest.mark.parametrize("root", ["clients", "gateway", "services", "tests", "demo"])
def test_no_file_passes_400_lines(root: str) -> None:
    assert too_long(modules(root)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_a_name_that_says_nothing(package: str) -> None:
    paths = [path.relative_to(ROOT) for path in modules(package)]
    names = {(part, path) for path in paths for part in path.with_suffix("").parts}
    assert sorted(str(path) for part, path in names if VAGUE.search(part)) == []


@pytest.mark.parametrize("name", ["utils", "image_utils", "helpers", "run_manager", "common"])
def test_a_name_that_says_nothing_would_be_seen(name: str) -> None:
    assert VAGUE.search(name)


def test_every_module_says_what_it_is() -> None:
    paths = modules(*PACKAGES)
    silent = [path for path in paths if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_every_folder_of_a_package_is_a_package() -> None:
    folders = {path.parent for path in modules(*PACKAGES)}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").is_file()) == []


def test_the_wheel_holds_the_five_packages_and_no_weights() -> None:
    assert [Path(package).name for package in PACKAGES] == [
        "faultline",
        "faultline_gateway",
        "faultline_core",
        "faultline_services",
        "faultline_miniature",
    ]
    assert {"*.safetensors", "services/faultline_miniature/suite/weights"} <= set(WHEEL["exclude"])
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if in_wheel(path)]
    assert [path.name for path in files if path.suffix == ".safetensors"] == []
    assert sum(path.stat().st_size for path in files) <= MOST_WHEEL_BYTES


def test_weights_are_safetensors_everywhere() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    assert [str(path.relative_to(ROOT)) for path in files if path.suffix in REFUSED_WEIGHTS] == []


def test_the_sdk_alone_needs_four_libraries_at_most() -> None:
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in PYPROJECT["project"]["dependencies"]}
    assert names == {"httpx", "httpx-sse", "pydantic"}


def test_every_verb_of_the_readme_is_one_of_the_makefile() -> None:
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    verbs = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.MULTILINE)) - verbs) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "services/README.md", "docs/papers.md"])
def test_every_link_inside_the_repository_leads_somewhere(name: str) -> None:
    page = ROOT / name
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def readme_calls() -> dict[str, ast.Call]:
    """Calls in the README's Python, by the name they are written with."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    calls = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    return {ast.unparse(call.func): call for call in calls}


def test_the_readme_s_interface_and_benchmark_are_asked_for_as_the_sdk_has_it() -> None:
    calls = readme_calls()
    verbs: dict[str, Callable[..., Any]] = {
        "client.dataset_interfaces.create": DatasetInterfaces.create,
        "client.shift_benchmarks.create": ShiftBenchmarks.create,
        "interface.generate": DatasetInterface.generate,
        "bench.export": ShiftBenchmark.export,
        "bench.save_report": ShiftBenchmark.save_report,
        "images.save": GeneratedPictures.save,
    }
    for name, verb in verbs.items():
        given = {keyword.arg: 0 for keyword in calls[name].keywords if keyword.arg}
        inspect.signature(verb).bind(None, *calls[name].args, **given)


def test_every_command_of_the_readme_is_one_with_these_options() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]  # a group
    lines = re.findall(r"^faultline ([a-z-]+) (.*)$", text.replace("\\\n", " "), flags=re.MULTILINE)
    assert {"dataset-interface", "generate", "shift-benchmark", "compare-prompts", "export"} <= {
        name for name, _ in lines
    }
    for name, rest in lines:
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert sorted(set(re.findall(r"(?<!\S)--[a-z-]+", rest)) - known) == [], name


def test_the_readme_s_program_calls_the_sdk_as_it_is() -> None:
    calls = readme_calls()
    given = {keyword.arg: 0 for keyword in calls["client.stress_tests.create"].keywords if keyword.arg}
    inspect.signature(StressTests.create).bind(None, **given)
    inspect.signature(Client).bind(*calls["Client"].args)
    assert {name for name in ("events", "wait", "summary") if not hasattr(StressTest, name)} == set()
    assert "request_counts" in RunEvent.model_fields
    assert {"client.stress_tests.create", "Client", "run.events", "run.wait"} <= set(calls)
