"""Where a model's folder is searched, and the digest of its contents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_services.models import model_folder as module
from counterpose_services.models.model_folder import (
    folder_revision,
    model_folder,
    require_safetensors,
    stays_inside,
)

FILES = {
    "model.safetensors": (2).to_bytes(8, "little") + b"{}",
    "config.json": b"{}",
    "tokenizer/vocab.txt": b"a b",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        file = tmp_path / "net" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return tmp_path / "net"


def downloaded(monkeypatch: pytest.MonkeyPatch, answer: Path | Exception) -> list[dict[str, object]]:
    """Replace the hub's cache; return the requests to it."""
    asked: list[dict[str, object]] = []

    def snapshot(name: str, **options: object) -> str:
        asked.append({"name": name} | options)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    monkeypatch.setattr(module, "snapshot_download", snapshot)
    return asked


def test_a_folder_under_the_root_takes_precedence_over_the_hub_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = downloaded(monkeypatch, folder / "elsewhere")
    assert model_folder(folder.parent, "net") == folder
    assert not asked


def test_a_cached_model_is_found_without_a_download(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = downloaded(monkeypatch, folder)
    assert model_folder(tmp_path, "Salesforce/blip2-opt-2.7b") == folder
    assert asked[0]["local_files_only"] is True
    assert asked[0]["allow_patterns"] == ["*.safetensors", "*.json", "*.txt", "*.model"]


@pytest.mark.fault("B42")
@pytest.mark.parametrize("error", [LocalEntryNotFoundError("none"), HFValidationError("no name of the hub")])
def test_a_missing_model_is_unknown(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloaded(monkeypatch, error)
    with pytest.raises(UnknownModel, match="'absent/net'"):
        model_folder(tmp_path, "absent/net")


@pytest.mark.parametrize(
    "name", ["..", "../net", "net/..", "/net", "net/", "a//b", ".net", "-net", "net\n", "nét"]
)
def test_a_path_is_not_a_model_name_and_the_hub_is_not_queried(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = downloaded(monkeypatch, folder)
    with pytest.raises(UnknownModel, match="not a model name"):
        model_folder(folder.parent, name)
    assert not asked


@pytest.mark.fault("B42", "T15")
def test_a_folder_of_pickles_is_refused(folder: Path) -> None:
    require_safetensors(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelFormatRefused, match="'net'"):
        require_safetensors(folder)


@pytest.mark.fault("B41", "T16")
def test_only_a_symlink_can_lead_outside_the_root(folder: Path) -> None:
    root = folder.parent / "models"
    root.mkdir()
    folder = folder.rename(root / "net")
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "config.json").touch()
    assert stays_inside(folder, root)
    (folder / "again.json").symlink_to(folder / "config.json")
    assert stays_inside(folder, root)
    (root / "link").symlink_to(root.parent / "outside")
    assert not stays_inside(root / "link", root)
    (folder / "vocab.json").symlink_to(root.parent / "outside" / "config.json")
    assert not stays_inside(folder, root)


def test_broken_and_circular_links_are_handled(folder: Path) -> None:
    (folder / "nowhere").symlink_to(folder / "gone")
    (folder / "loop").symlink_to(folder)
    assert stays_inside(folder, folder.parent)


def test_a_copy_has_the_same_revision(folder: Path, tmp_path: Path) -> None:
    for name, content in reversed(FILES.items()):
        file = tmp_path / "copy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert folder_revision(tmp_path / "copy") == folder_revision(folder)


def change_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"weightz")


def change_vocabulary(folder: Path) -> None:
    (folder / "tokenizer" / "vocab.txt").write_bytes(b"b a")


def rename_configuration(folder: Path) -> None:
    (folder / "config.json").rename(folder / "settings.json")


def add_configuration(folder: Path) -> None:
    (folder / "generation_config.json").write_bytes(b"{}")


@pytest.mark.fault("F29")
@pytest.mark.parametrize(
    "change", [change_weights, change_vocabulary, rename_configuration, add_configuration]
)
def test_every_model_file_affects_the_revision(change: Callable[[Path], None], folder: Path) -> None:
    before = folder_revision(folder)
    change(folder)
    assert folder_revision(folder) != before


def test_unrelated_files_do_not_affect_the_revision(folder: Path) -> None:
    before = folder_revision(folder)
    (folder / "README.md").write_text("a fine model", encoding="utf-8")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    assert folder_revision(folder) == before
