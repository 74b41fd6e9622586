"""Digests of files: kept until the file changes, shared by processes, never in the way."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterpose_services.models import file_digests as module
from counterpose_services.models.file_digests import FileDigests

CONTENT = b"weights " * 1000


@pytest.fixture(autouse=True)
def _small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_FROM_BYTES", 1)
    monkeypatch.setattr(module, "SETTLED_S", -1.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "model.safetensors"
    made.write_bytes(CONTENT)
    return made


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read to be hashed."""
    read: list[Path] = []
    compute = module._hashed

    def noted(path: Path) -> str:
        read.append(path)
        return compute(path)

    monkeypatch.setattr(module, "_hashed", noted)
    return read


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_hashed_once_by_all_replicas(file: Path, tmp_path: Path, hashed: list[Path]) -> None:
    found = [FileDigests(tmp_path / "digests").of(file) for _ in range(3)]
    assert found == [sha256(CONTENT)] * 3
    assert hashed == [file]


def test_a_changed_file_is_hashed_again(file: Path, tmp_path: Path, hashed: list[Path]) -> None:
    digests = FileDigests(tmp_path / "digests")
    digests.of(file)
    changed = CONTENT.replace(b"w", b"W")
    status = file.stat()
    file.write_bytes(changed)
    # As `cp --preserve` and `rsync --times` do: path, size and time of change are the same.
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digests.of(file) == sha256(changed)
    assert len(hashed) == 2


def test_a_file_that_has_just_changed_is_not_kept(
    file: Path, tmp_path: Path, hashed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLED_S", 3600.0)
    digests = FileDigests(tmp_path / "digests")
    assert [digests.of(file), digests.of(file)] == [sha256(CONTENT)] * 2
    assert len(hashed) == 2


def test_a_link_of_the_hub_s_cache_finds_its_file_s_digest(
    file: Path, tmp_path: Path, hashed: list[Path]
) -> None:
    link = tmp_path / "snapshot.safetensors"
    link.symlink_to(file)
    digests = FileDigests(tmp_path / "digests")
    assert digests.of(link) == digests.of(file) == sha256(CONTENT)
    assert len(hashed) == 1


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"path": "x"}', b"\xff"])
def test_a_damaged_record_is_written_anew(
    damaged: bytes, file: Path, tmp_path: Path, hashed: list[Path]
) -> None:
    digests = FileDigests(tmp_path / "digests")
    digests.of(file)
    record = next((tmp_path / "digests").iterdir())
    record.write_bytes(damaged)
    assert [digests.of(file), digests.of(file)] == [sha256(CONTENT)] * 2
    assert len(hashed) == 2


def test_a_folder_that_cannot_be_written_stops_nothing(file: Path, tmp_path: Path) -> None:
    (tmp_path / "digests").write_text("a file in the way", encoding="utf-8")
    assert FileDigests(tmp_path / "digests").of(file) == sha256(CONTENT)


def test_small_files_leave_no_record(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_FROM_BYTES", len(CONTENT) + 1)
    FileDigests(tmp_path / "digests").of(file)
    assert not (tmp_path / "digests").exists()


HASHING = """
import sys
from pathlib import Path
from counterpose_services.models import file_digests as module
module.KEPT_FROM_BYTES, module.SETTLED_S = 1, -1.0
digests = module.FileDigests(Path(sys.argv[1]))
sys.stdin.read(1)
print({digests.of(Path(sys.argv[2])) for _ in range(50)})
"""


def test_processes_that_write_the_same_record_find_the_same_digest(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HASHING, str(tmp_path / "digests"), str(file)]
    together = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    told = [process.communicate("x")[0].strip() for process in together]
    assert told == [str({sha256(CONTENT)})] * 3
    assert [kept.suffix for kept in (tmp_path / "digests").iterdir()] == [".json"]
