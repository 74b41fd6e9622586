"""Packed images: small on disk, and read back as the raw form that names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore, digest
from counterpose_core.errors import ArtifactCorrupt
from counterpose_core.images.codecs import Pixels, encode_png, encode_raw
from counterpose_core.images.packing import pack, unpack

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (40, 56, 3), dtype=np.uint8)
FLAT = np.full((1000, 1200, 3), (200, 30, 4), np.uint8)


def stored_file(folder: Path, ref: str) -> Path:
    """The file of a blob."""
    return folder / "blobs" / ref[:2] / ref


@pytest.mark.parametrize(
    "pixels",
    [NOISE, FLAT, NOISE[:1, :1], np.zeros((1, 20_000, 3), np.uint8), np.zeros((17_000, 2, 3), np.uint8),
     np.zeros((2500, 2500, 3), np.uint8)],
    ids=["noise", "one colour", "one pixel", "too wide for WebP", "too high for WebP", "too much for WebP"],
)  # fmt: skip
def test_a_packed_image_is_read_back_as_the_raw_form_that_names_it(tmp_path: Path, pixels: Pixels) -> None:
    store, raw, packed = BlobStore(str(tmp_path)), encode_raw(pixels), pack(pixels)
    store.put_packed(packed)
    assert packed.ref == digest(raw)
    assert store.get(packed.ref) == unpack(packed.data) == raw


def test_an_image_of_one_colour_is_stored_in_a_thousandth_of_its_raw_bytes(tmp_path: Path) -> None:
    store, packed = BlobStore(str(tmp_path)), pack(FLAT)
    store.put_packed(packed)
    assert stored_file(tmp_path, packed.ref).stat().st_size == len(packed.data) < FLAT.nbytes / 1000


def test_what_webp_would_take_much_memory_for_is_a_png() -> None:
    forms = [pack(np.zeros((height, 2500, 3), np.uint8)).data[:4] for height in (2400, 2401)]
    assert forms == [b"RIFF", b"\x89PNG"]


def test_noise_is_stored_in_hardly_more_than_its_raw_bytes() -> None:
    assert len(pack(NOISE).data) < NOISE.nbytes * 1.1


def test_an_image_is_stored_once_whether_it_comes_packed_or_raw(tmp_path: Path) -> None:
    store, packed, raw = BlobStore(str(tmp_path)), pack(NOISE), encode_raw(NOISE)
    file = stored_file(tmp_path, packed.ref)
    store.put_packed(packed)
    assert (store.put(raw), file.read_bytes()) == (packed.ref, packed.data)
    file.write_bytes(raw)
    store.put_packed(packed)
    assert file.read_bytes() == raw


@pytest.mark.fault("F11")
@pytest.mark.parametrize("damage", [b"", b"RIFF", encode_png(FLAT), pack(NOISE).data[:-1], pack(FLAT).data])
def test_a_damaged_packed_image_is_found_and_mended_by_another_put(tmp_path: Path, damage: bytes) -> None:
    store, packed = BlobStore(str(tmp_path)), pack(NOISE)
    store.put_packed(packed)
    stored_file(tmp_path, packed.ref).write_bytes(damage)
    with pytest.raises(ArtifactCorrupt, match=packed.ref):
        store.get(packed.ref)
    store.put_packed(packed)
    assert store.get(packed.ref) == encode_raw(NOISE)


def test_a_file_that_was_stored_under_its_own_name_is_not_unpacked(tmp_path: Path) -> None:
    store, png = BlobStore(str(tmp_path)), encode_png(NOISE)
    assert store.get(store.put(png)) == png
