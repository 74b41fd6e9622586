"""What a replica tells while it loads its models: which file is read, and how much of it."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from counterpose_core.weights_reading import (
    FOLDER,
    Patience,
    WeightsReading,
    current_readings,
    forget_reading,
    write_reading,
)
from counterpose_services.models import weight_loading as module
from counterpose_services.models.weight_loading import bytes_read, starting, weights_by_path
from counterpose_services.settings import ServiceSettings

MEBIBYTE = 2**20
HALF = WeightsReading(
    service="editor", file="unet/x.safetensors", read_bytes=12 * 10**8, size_bytes=34 * 10**8
)


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    """A suite whose captioner lies in a folder, behind a link as in the hub's cache."""
    folder = tmp_path / "root" / "captioner"
    folder.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    save_file({"weight": np.zeros(8 * MEBIBYTE, np.uint8)}, tmp_path / "blobs" / "0123")
    (folder / "model.safetensors").symlink_to(tmp_path / "blobs" / "0123")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return ServiceSettings.model_validate({"suite_root": tmp_path / "root", "state_dir": tmp_path / "state"})


def test_a_reading_says_service_file_and_how_much() -> None:
    assert str(HALF) == "editor: reading unet/x.safetensors, 1.2 of 3.4 GB"
    small = HALF.model_copy(update={"read_bytes": 2_500_000, "size_bytes": 10**7})
    assert small.words == "reading unet/x.safetensors, 2.5 of 10.0 MB"


def test_readings_are_found_until_they_end_or_grow_old(tmp_path: Path) -> None:
    write_reading(tmp_path, "editor-1", HALF)
    write_reading(tmp_path, "scorer-2", HALF.model_copy(update={"service": "scorer"}))
    assert [one.service for one in current_readings(tmp_path)] == ["editor", "scorer"]
    forget_reading(tmp_path, "scorer-2")
    assert current_readings(tmp_path) == [HALF]
    # Its replica was killed.
    os.utime(tmp_path / FOLDER / "editor-1.json", (0, 0))
    assert current_readings(tmp_path) == []


def test_a_damaged_note_is_none(tmp_path: Path) -> None:
    write_reading(tmp_path, "editor-1", HALF)
    (tmp_path / FOLDER / "editor-1.json").write_text("{", encoding="utf-8")
    assert current_readings(tmp_path) == []


def test_weights_are_called_by_their_place_in_the_model(settings: ServiceSettings, tmp_path: Path) -> None:
    assert weights_by_path(settings, "captioner") == {str(tmp_path / "blobs" / "0123"): "model.safetensors"}


@pytest.mark.linux
def test_the_kernel_tells_how_much_of_a_mapped_file_was_read(settings: ServiceSettings) -> None:
    files = weights_by_path(settings, "captioner")
    (path,) = files
    assert bytes_read(files) == {}
    with Path(path).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        mapped.madvise(mmap.MADV_RANDOM)
        assert bytes_read(files)[path] < 4 * MEBIBYTE
        assert sum(mapped[at] for at in range(MEBIBYTE, len(mapped), mmap.PAGESIZE)) == 0
        assert bytes_read(files)[path] > 6 * MEBIBYTE
    finally:
        mapped.close()


@pytest.mark.linux
def test_the_kernel_tells_how_far_an_open_file_was_read(settings: ServiceSettings) -> None:
    files = weights_by_path(settings, "captioner")
    (path,) = files
    with Path(path).open("rb", buffering=0) as file:
        file.read(3 * MEBIBYTE)
        assert bytes_read(files) == {path: 3 * MEBIBYTE}


def test_without_proc_nothing_is_known(settings: ServiceSettings, tmp_path: Path) -> None:
    assert bytes_read(weights_by_path(settings, "captioner"), tmp_path / "no proc") == {}


@pytest.mark.linux
def test_a_start_tells_what_it_reads_and_takes_it_away_at_its_end(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    (path,) = weights_by_path(settings, "captioner")
    with starting(settings, "captioner"), Path(path).open("rb", buffering=0) as file:
        file.read(4 * MEBIBYTE)
        ending = time.monotonic() + 100
        while not (found := current_readings(settings.state_dir)):
            assert time.monotonic() < ending, "nothing was told"
        assert [(one.service, one.file, one.read_bytes) for one in found] == [
            ("captioner", "model.safetensors", 4 * MEBIBYTE)
        ]
    assert current_readings(settings.state_dir) == []


def test_patience_begins_anew_with_every_sign_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    patience = Patience(10.0)
    for second, seen, waits in (
        (0, "a", True),
        (9, "a", True),
        (18, "b", True),
        (28, "b", True),
        (29, "b", False),
    ):
        now[0] = float(second)
        assert patience.sees(seen) is waits, second
