"""The store: bytes are read back unchanged or not at all."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

from counterpose_core import blobs
from counterpose_core.blobs import BlobStore, cache_key, digest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, DiskFailed, StorageFull
from counterpose_core.images.codecs import pixel_count
from counterpose_core.images.packing import pack


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path) if request.param == "folder" else f"memory://{tmp_path.name}")


def blob_file(root: Path, ref: str) -> Path:
    return next(root.rglob(ref))


@pytest.mark.paper("LANCE-D-overwrite")
def test_bytes_are_read_back_by_their_digest(store: BlobStore) -> None:
    ref = store.put(b"an image")
    assert ref == digest(b"an image")
    assert store.get(ref) == b"an image"
    assert store.put(b"an image") == ref


@pytest.mark.parametrize("side", [300, 2500, 20_000])
def test_the_first_bytes_of_a_stored_image_tell_its_pixels_before_the_rest_is_read(
    store: BlobStore, side: int
) -> None:
    """As lossless WebP, as PNG beyond its 6 megapixels, and as PNG beyond its longest side."""
    pixels = np.zeros((300 if side > 16_383 else side, side, 3), np.uint8)
    image, beginnings = pack(pixels), list[bytes]()
    store.put_packed(image)
    raw = store.get(image.ref, beginnings.append)
    [beginning] = beginnings
    assert (len(beginning) <= 64, pixel_count(beginning)) == (True, pixels.size // 3)
    assert pixel_count(raw[:64]) == pixels.size // 3


@pytest.mark.fault("B62")
def test_an_unknown_digest_is_missing(store: BlobStore) -> None:
    assert not store.exists("0" * 64)
    with pytest.raises(ArtifactMissing, match="0000"):
        store.get("0" * 64)


@pytest.mark.fault("T16")
@pytest.mark.parametrize(
    "ref", ["", "..", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n", "/" + "0" * 63]
)
def test_an_invalid_digest_is_not_found(store: BlobStore, ref: str) -> None:
    assert not store.exists(ref)
    with pytest.raises(ArtifactMissing):
        store.get(ref)


@pytest.mark.fault("F11")
@pytest.mark.parametrize("damage", [b"", b"an imag", b"bn image"])
def test_damage_is_detected_and_repaired_by_another_put(tmp_path: Path, damage: bytes) -> None:
    store = BlobStore(str(tmp_path))
    ref = store.put(b"an image")
    blob_file(tmp_path, ref).write_bytes(damage)
    with pytest.raises(ArtifactCorrupt, match=ref):
        store.get(ref)
    store.put(b"an image")
    assert store.get(ref) == b"an image"


@pytest.mark.fault("F3")
def test_a_write_that_dies_before_the_rename_leaves_no_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(str(tmp_path))

    def fail(path: Path, target: Path) -> Path:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(DiskFailed, match="input/output"):
        store.put(b"an image")
    assert not store.exists(digest(b"an image"))
    assert not list((tmp_path / "tmp").iterdir())


def test_file_and_folder_are_synced_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(str(tmp_path))
    store.put(b"makes the folders")
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        steps.append("sync folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "sync file")
        sync(handle)

    def noted_replace(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    store.remember("caption", cache_key(image=1), digest(b"makes the folders"))
    assert steps[-3:] == ["sync file", "rename", "sync folder"]


@pytest.mark.fault("F10")
def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(str(tmp_path))

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageFull, match="8 bytes"):
        store.put(b"an image")


@pytest.mark.fault("F23")
def test_a_blob_whose_sync_fails_is_not_there_and_can_be_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, sync = BlobStore(str(tmp_path)), os.fsync

    def fail(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "input/output error")
        sync(handle)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(DiskFailed, match="input/output error"):
            store.put(b"an image")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    with pytest.raises(DiskFailed, match="start anew"):
        store.put(b"an image")
    # As another process finds it.
    monkeypatch.setattr(blobs, "_failures", {})
    assert store.get(store.put(b"an image")) == b"an image"


def test_the_cache_is_keyed_by_all_inputs(store: BlobStore) -> None:
    ref = store.put(b"an inversion")
    key = cache_key(image="a", preset=PromptToPromptPreset(steps=20), seed=0)
    store.remember("inversion", key, ref)
    assert store.recall("inversion", key) == ref
    assert store.recall("caption", key) is None
    assert (
        store.recall("inversion", cache_key(image="a", preset=PromptToPromptPreset(steps=21), seed=0)) is None
    )


def test_a_cache_entry_without_its_blob_is_a_miss(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    ref, key = store.put(b"an inversion"), cache_key(image="a")
    store.remember("inversion", key, ref)
    blob_file(tmp_path / "blobs", ref).unlink()
    assert store.recall("inversion", key) is None


@pytest.mark.fault("F11")
def test_a_truncated_cache_entry_is_a_miss(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    key = cache_key(image="a")
    store.remember("inversion", key, store.put(b"an inversion"))
    blob_file(tmp_path / "cache", key).write_bytes(b"\xff\x00torn")
    assert store.recall("inversion", key) is None


@pytest.mark.fault("T16")
@pytest.mark.parametrize("kind", ["", "../up", "A", "a/b"])
def test_a_cache_kind_cannot_be_a_path(store: BlobStore, kind: str) -> None:
    with pytest.raises(ValueError, match="a cache entry cannot be named"):
        store.remember(kind, cache_key(image=1), "0" * 64)


def test_a_cache_stores_only_digests(store: BlobStore) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        store.remember("caption", cache_key(image=1), "elsewhere")


def test_cache_keys_do_not_depend_on_the_order_of_inputs() -> None:
    assert cache_key(a=1, b=[2.5, None]) == cache_key(b=[2.5, None], a=1)
    assert cache_key(a=1) != cache_key(a=2) != cache_key(b=2)


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}])
def test_inputs_without_a_canonical_form_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        cache_key(value=value)


@pytest.mark.fault("F3")
def test_only_stale_leftovers_of_killed_writers_are_swept(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    old, young = tmp_path / "tmp" / "1-old", tmp_path / "tmp" / "2-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert store.sweep() == 1
    assert young.exists()
    assert not old.exists()


def test_the_store_repr_is_its_constructor(tmp_path: Path) -> None:
    assert repr(BlobStore(str(tmp_path))) == f"BlobStore({str(tmp_path)!r})"


@pytest.mark.fault("T18")
def test_a_blob_is_erased_with_all_that_was_computed_of_it(store: BlobStore) -> None:
    image, other = store.put(b"an image"), store.put(b"another")
    for ref in (image, other):
        features = store.put(b"features of " + ref.encode())
        store.remember("clip", cache_key(of=ref), features, of=ref)
        store.keep("inversion", cache_key(of=ref), b"latents of " + ref.encode(), of=ref)
    store.note_made([store.put(b"made of it")], of=image)
    orphans = store.erase(image, unused_since=time.time() + 1)
    assert orphans is not None
    assert not store.exists(image)
    assert store.recall("clip", cache_key(of=image), of=image) is None
    assert store.find("inversion", cache_key(of=image), of=image) is None
    # What only its notes named, and may go by itself: its features, and the list of what was made.
    features, listed = sorted(orphans, key=lambda ref: store.get(ref)[:1] == b"[")
    assert store.get(features) == b"features of " + image.encode()
    assert store.erase(listed, unused_since=time.time() + 1) == {digest(b"made of it")}
    assert store.get(other) == b"another"
    assert store.recall("clip", cache_key(of=other), of=other) is not None
    assert store.find("inversion", cache_key(of=other), of=other) is not None
    assert store.erase(image, unused_since=time.time() + 1) == set()


@pytest.mark.fault("T18")
def test_a_blob_that_was_put_again_is_not_erased(store: BlobStore) -> None:
    before = time.time() - 1
    image = store.put(b"an image")
    assert store.erase(image, unused_since=before) is None
    assert store.get(image) == b"an image"


@pytest.mark.fault("T18")
def test_a_blob_that_is_erased_while_it_is_put_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(str(tmp_path))
    image, utime = store.put(b"an image"), os.utime

    def erased_first(path: Path) -> None:
        monkeypatch.setattr(os, "utime", utime)
        assert store.erase(image, unused_since=time.time() + 1) == set()
        utime(path)

    monkeypatch.setattr(os, "utime", erased_first)
    assert store.put(b"an image") == image
    assert store.get(image) == b"an image"
