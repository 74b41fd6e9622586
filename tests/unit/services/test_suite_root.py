"""Where the embedded suite's weights are found: in a clone, or in their own distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import counterpose_miniature
from counterpose_core.errors import UnknownModel
from counterpose_services.models.weights import require_weights
from counterpose_services.settings import SERVICES, SUITE_PACKAGE, ServiceSettings, embedded_suite_root


@pytest.fixture
def without_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a ``counterpose_miniature`` as its wheel installs it: without weights."""
    real = resources.files

    def files(package: str) -> object:
        return tmp_path / package if package == "counterpose_miniature" else real(package)

    monkeypatch.setattr(resources, "files", files)
    monkeypatch.delenv("COUNTERPOSE_SUITE_ROOT", raising=False)
    return tmp_path / "counterpose_miniature"


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution of the weights; returns their folder."""
    package = tmp_path / "site" / SUITE_PACKAGE
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    yield package / "weights"
    # Finding its folder imports it.
    sys.modules.pop(SUITE_PACKAGE, None)


def settings() -> ServiceSettings:
    return ServiceSettings.model_validate({})


def test_a_clone_uses_the_weights_in_its_tree() -> None:
    root = embedded_suite_root()
    assert root == Path(counterpose_miniature.__file__).parent / "suite" / "weights"
    assert (root / "captioner" / "model.safetensors").is_file()


def test_weights_in_the_clone_override_installed_ones(distribution: Path) -> None:
    assert embedded_suite_root() != distribution
    assert embedded_suite_root().is_dir()


def test_without_a_clone_the_installed_weights_are_used(without_tree: Path, distribution: Path) -> None:
    assert settings().suite_root == distribution


def test_the_environment_variable_overrides_both(
    without_tree: Path, distribution: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COUNTERPOSE_SUITE_ROOT", str(tmp_path / "mine"))
    assert settings().suite_root == tmp_path / "mine"


def test_without_weights_the_error_says_what_to_install(without_tree: Path) -> None:
    with pytest.raises(UnknownModel) as caught:
        require_weights(settings(), SERVICES)
    detail = caught.value.detail
    root = without_tree / "suite" / "weights"
    assert detail.startswith(f"the captioner finds no weights: there is no folder {str(root)!r}; ")
    assert "install the wheel of counterpose-miniature-suite (`make dist`" in detail
    assert detail.endswith(", or set COUNTERPOSE_SUITE_ROOT")
    assert "\n" not in detail


def test_a_missing_custom_root_is_named_without_mentioning_the_embedded_suite(
    tmp_path: Path,
) -> None:
    given = ServiceSettings.model_validate({"suite_root": tmp_path / "nowhere", "suite": "lance"})
    with pytest.raises(UnknownModel, match=r"no folder '.*/nowhere'; set COUNTERPOSE_SUITE_ROOT") as caught:
        require_weights(given, SERVICES)
    assert "pip install" not in caught.value.detail
