"""The rules of the repository: sizes, names, docstrings, and the contents of the wheel."""

from __future__ import annotations

import ast
import fnmatch
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
PACKAGES: list[str] = WHEEL["packages"]
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)($|_)")
REFUSED_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy")
MOST_LINES = 400
MOST_WHEEL_BYTES = 5_770_000
"""The pages' script, htmx, is 52 kB of them, the list of adjectives 66 kB, ImageNet-1k's hierarchy 31 kB,
the operations on images 84 kB, preservation 43 kB and 27 kB in runs, spending 38 kB, the bit
stream of a WebP 9 kB."""


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


@pytest.mark.parametrize("root", ["clients", "gateway", "services", "tests", "demo", "evaluation"])
def test_no_file_exceeds_400_lines(root: str) -> None:
    assert too_long(modules(root)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_a_meaningless_name(package: str) -> None:
    paths = [path.relative_to(ROOT) for path in modules(package)]
    names = {(part, path) for path in paths for part in path.with_suffix("").parts}
    assert sorted(str(path) for part, path in names if VAGUE.search(part)) == []


@pytest.mark.parametrize("name", ["utils", "image_utils", "helpers", "run_manager", "common"])
def test_a_meaningless_name_is_detected(name: str) -> None:
    assert VAGUE.search(name)


def test_every_module_has_a_docstring() -> None:
    paths = modules(*PACKAGES)
    silent = [path for path in paths if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_every_folder_of_a_package_has_an_init_file() -> None:
    folders = {path.parent for path in modules(*PACKAGES)}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").is_file()) == []


def test_the_wheel_holds_the_eight_packages_and_no_weights() -> None:
    assert [Path(package).name for package in PACKAGES] == [
        "counterpose",
        "counterpose_gateway",
        "counterpose_core",
        "counterpose_http",
        "counterpose_processes",
        "counterpose_services",
        "counterpose_miniature",
        "counterpose_photographs",
    ]
    assert {"*.safetensors", "services/counterpose_miniature/suite/weights"} <= set(WHEEL["exclude"])
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if in_wheel(path)]
    assert [path.name for path in files if path.suffix == ".safetensors"] == []
    assert sum(path.stat().st_size for path in files) <= MOST_WHEEL_BYTES


def test_weights_are_safetensors_everywhere() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    assert [str(path.relative_to(ROOT)) for path in files if path.suffix in REFUSED_WEIGHTS] == []


def test_programs_of_the_evaluation_load_torchvision_by_way_of_its_operators() -> None:
    """Beside a torch of another build, torchvision raises without them, and isort would put timm first."""
    unguarded = [
        path.relative_to(ROOT).as_posix()
        for path in modules("evaluation")
        if (names := imported_first(path)) and "counterpose_core.torchvision_operators" not in names
    ]
    assert unguarded == []


def imported_first(path: Path) -> list[str]:
    """What a module's head imports up to the first that loads torchvision; nothing if none does."""
    names = list[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if any(name.split(".")[0] in ("timm", "torchvision", "open_clip") for name in names):
            return names
    return []


def test_the_sdk_needs_at_most_four_libraries() -> None:
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in PYPROJECT["project"]["dependencies"]}
    assert names == {"httpx", "httpx-sse", "pydantic"}


def test_every_make_target_in_the_readme_exists() -> None:
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    verbs = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.MULTILINE)) - verbs) == []
