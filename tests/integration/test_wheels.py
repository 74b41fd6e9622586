"""The two wheels: one has the code, the other the weights, and the extra `all` installs both."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from counterpose_core.suite_files import suite_names
from counterpose_services.models.weights import require_weights
from counterpose_services.settings import SERVICES, SUITE_PACKAGE, ServiceSettings

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECTS = (".", "./suites/miniature")
MOST_BYTES = {"counterpose": 2_400_000, SUITE_PACKAGE: 40_000_000}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), *PROJECTS], cwd=ROOT, check=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def names_in(wheel: Path) -> list[str]:
    """Names of the files in a wheel, without its metadata."""
    return [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]


def metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()


def test_two_wheels_of_bounded_size_are_built(wheels: dict[str, Path]) -> None:
    assert set(wheels) == set(MOST_BYTES)
    assert {name: path.stat().st_size <= MOST_BYTES[name] for name, path in wheels.items()} == dict.fromkeys(
        MOST_BYTES, True
    )


def test_the_code_wheel_has_suite_tables_and_bugs_but_no_weights(wheels: dict[str, Path]) -> None:
    names = names_in(wheels["counterpose"])
    assert [name for name in names if name.endswith(".safetensors") or "/weights/" in name] == []
    assert {f"counterpose_core/suites/{name}.toml" for name in suite_names()} <= set(names)
    assert "counterpose_miniature/suite/bugs/leaning-vit.json" in names
    pages = {"static/htmx.min.js", "static/htmx.LICENSE", "static/pages.css", "templates/page.html.j2"}
    assert {f"counterpose_gateway/ui/{name}" for name in pages} <= set(names)
    assert {"counterpose/py.typed", "counterpose/_stack/stack.py", "counterpose/_cli/stack.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {
        Path(package).name for package in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }


def test_the_code_wheel_has_no_tests_demo_or_evaluation(wheels: dict[str, Path]) -> None:
    folders = {name.split("/")[0] for name in names_in(wheels["counterpose"])}
    assert folders.isdisjoint({"tests", "demo", "evaluation", "oracle", SUITE_PACKAGE})


def test_the_suite_wheel_has_every_weight_file(wheels: dict[str, Path]) -> None:
    tree = ROOT / "services/counterpose_miniature/suite/weights"
    wanted = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    prefix = f"{SUITE_PACKAGE}/weights/"
    found = {name.removeprefix(prefix) for name in names_in(wheels[SUITE_PACKAGE]) if name.startswith(prefix)}
    assert found == wanted


def test_the_suite_wheel_has_all_weights_that_the_services_need(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    zipfile.ZipFile(wheels[SUITE_PACKAGE]).extractall(tmp_path)
    root = tmp_path / SUITE_PACKAGE / "weights"
    require_weights(ServiceSettings.model_validate({"suite_root": root}), SERVICES)


def test_the_all_extra_includes_every_extra_but_mlflow() -> None:
    # MLflow's client wants older versions than the rest.
    extras = set(PYPROJECT["project"]["optional-dependencies"]) - {"all", "mlflow"}
    (everything,) = PYPROJECT["project"]["optional-dependencies"]["all"]
    assert set(everything.removeprefix("counterpose[").removesuffix("]").split(",")) == extras


def test_no_wheel_asks_an_index_for_a_distribution_of_ours(wheels: dict[str, Path]) -> None:
    # Whoever registers such a name would be installed in its place.
    for wheel in wheels.values():
        required = [line for line in metadata_of(wheel).splitlines() if line.startswith("Requires-Dist: ")]
        assert [line for line in required if "counterpose" in line.lower()] == []


def test_the_code_wheel_takes_no_name_beside_its_own(wheels: dict[str, Path]) -> None:
    # Another product's package or program of the same name would be overwritten.
    with zipfile.ZipFile(wheels["counterpose"]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        lines = archive.read(name).decode().splitlines()
        folders = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    programs = [line.split(" = ")[0] for line in lines if " = " in line]
    assert [name for name in (*programs, *folders) if not name.startswith("counterpose")] == []


def test_the_suite_wheel_has_no_dependencies(wheels: dict[str, Path]) -> None:
    assert "Requires-Dist" not in metadata_of(wheels[SUITE_PACKAGE])
