"""Safetensors files: headers are checked before anything is loaded."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.models.model_folder import require_readable, require_safetensors


def file_of(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A file with this header, whose stated length may be wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(start: int, end: int, shape: object = (2,), dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


class Opened:
    """Unpickling it leaves a file behind."""

    def __init__(self, trace: str) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path(self.trace),)  # type: ignore[return-value]  # what pickle calls on loading


GOOD = file_of({"a": tensor(0, 8), "b": tensor(8, 16)}, bytes(16))
BAD: dict[str, bytes] = {
    "nothing": b"",
    "seven bytes": b"\0" * 7,
    "a header of 2^63 bytes": file_of({}, length=2**63),
    "a header of 2^64 - 1 bytes": file_of({}, length=2**64 - 1),
    "a header of 200 MB": file_of({}, length=200_000_000),
    "a header longer than the file": file_of({}, length=100),
    "a header of no bytes": file_of(b""),
    "a header that is no JSON": file_of(b"{" * 10),
    "a header that is a list": file_of([]),
    "a header in UTF-16": file_of("{}".encode("utf-16")),
    "tensors that overlap": file_of({"a": tensor(0, 8), "b": tensor(4, 12)}, bytes(12)),
    "two tensors in one place": file_of({"a": tensor(0, 8), "b": tensor(0, 8)}, bytes(8)),
    "a gap between tensors": file_of({"a": tensor(0, 8), "b": tensor(12, 20)}, bytes(20)),
    "offsets beyond the file": file_of({"a": tensor(0, 8)}, bytes(4)),
    "offsets that run backwards": file_of({"a": tensor(8, 0)}, bytes(8)),
    "offsets of 2^63": file_of({"a": tensor(2**63, 2**63 + 8)}, bytes(8)),
    "negative offsets": file_of({"a": tensor(-8, 0)}, bytes(8)),
    "bytes behind the last tensor": file_of({"a": tensor(0, 8)}, bytes(16)),
    "a shape of more numbers than bytes": file_of({"a": tensor(0, 8, (3,))}, bytes(8)),
    "a shape whose product overflows": file_of({"a": tensor(0, 8, (2**62, 8))}, bytes(8)),
    "a negative shape": file_of({"a": tensor(0, 8, (-2,))}, bytes(8)),
    "a shape in words": file_of({"a": tensor(0, 8, "two")}, bytes(8)),
    "a type that does not exist": file_of({"a": tensor(0, 8, dtype="F33")}, bytes(8)),
    "a type of Python objects": file_of({"a": tensor(0, 8, dtype="object")}, bytes(8)),
    "a pickle": pickle.dumps({"a": [1.0, 2.0]}),
    "an old pickle": pickle.dumps({"a": [1.0, 2.0]}, protocol=0),
}


def test_a_safetensors_file_is_readable(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(GOOD)
    require_readable(tmp_path / "model.safetensors")
    require_safetensors(tmp_path)


@pytest.mark.fault("B45")
@pytest.mark.parametrize("kind", BAD)
def test_a_file_with_a_false_safetensors_suffix_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(BAD[kind])
    with pytest.raises(ModelFormatRefused, match=r"'model\.safetensors'") as refused:
        require_readable(file)
    assert str(tmp_path) not in refused.value.detail
    with pytest.raises(ModelFormatRefused):
        require_safetensors(tmp_path)


@pytest.mark.fault("B44", "T15")
def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("net/data.pkl", pickle.dumps(1))
        archive.writestr("net/code/__torch__.py", "def forward(self): pass")
    with pytest.raises(ModelFormatRefused, match="not a safetensors file"):
        require_readable(file)


@pytest.mark.fault("B44", "T15")
def test_a_pickle_named_safetensors_is_refused_without_unpickling(tmp_path: Path) -> None:
    file, trace = tmp_path / "model.safetensors", tmp_path / "trace"
    file.write_bytes(pickle.dumps(Opened(str(trace))))
    with pytest.raises(ModelFormatRefused):
        require_readable(file)
    assert not trace.exists()
    # The trap works: unpickling the file leaves the trace.
    pickle.loads(file.read_bytes())
    assert trace.exists()


@pytest.mark.fault("B44")
@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ckpt", "pytorch_model.bin", "model.pkl"])
def test_a_folder_of_other_formats_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(GOOD)
    with pytest.raises(ModelFormatRefused, match="no safetensors weights"):
        require_safetensors(tmp_path)


def test_a_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(ModelFormatRefused):
        require_safetensors(tmp_path)
