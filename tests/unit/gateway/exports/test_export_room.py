"""Exports that are sent: few copies at once, and each goes with its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from counterpose_core.errors import DatasetEmpty, RateLimited
from counterpose_gateway.exports.export import archived
from counterpose_gateway.http.bounds import exports_at_once


@pytest.mark.fault("T21")
def test_few_copies_are_on_the_disk_at_once_and_each_goes_with_its_reader() -> None:
    exports, places = exports_at_once(), list[Path]()

    def write(folder: Path) -> None:
        places.append(folder)
        folder.mkdir()
        (folder / "0.png").write_bytes(b"pixels")

    def sent(tenant: str = "ours") -> Iterator[bytes]:
        return archived(write, exports.held(tenant))

    first, dropped = sent(), sent()
    with pytest.raises(RateLimited, match="2 exports of a tenant and 4 in all"):
        sent()
    others = [sent("acme"), sent("acme")]
    with pytest.raises(RateLimited):
        sent("third")
    assert (len(places), [each.exists() for each in places]) == (4, [True] * 4)
    # Read to its end, and dropped before its first piece.
    assert b"pixels" in b"".join(first)
    del dropped
    assert [each.exists() for each in places] == [False, False, True, True]
    assert b"pixels" in b"".join(sent())
    for each in others:
        assert b"pixels" in b"".join(each)
    assert exports.now == 0


def read_whole(pieces: Iterator[bytes], place: Path) -> None:
    assert b"pixels" in b"".join(pieces)


def closed_on_the_way(pieces: Iterator[bytes], place: Path) -> None:
    next(pieces)
    assert isinstance(pieces, Generator)
    pieces.close()


def left_on_the_way(pieces: Iterator[bytes], place: Path) -> None:
    next(pieces)


def ended_by_an_error(pieces: Iterator[bytes], place: Path) -> None:
    next(pieces)
    assert isinstance(pieces, Generator)
    with pytest.raises(asyncio.CancelledError):
        pieces.throw(asyncio.CancelledError())


def gone_below_it(pieces: Iterator[bytes], place: Path) -> None:
    (place / "0.png").unlink()
    (place / "0.png").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        b"".join(pieces)


@pytest.mark.fault("T21")
@pytest.mark.parametrize(
    "end", [read_whole, closed_on_the_way, left_on_the_way, ended_by_an_error, gone_below_it],
    ids=lambda end: end.__name__,
)  # fmt: skip
def test_a_copy_and_its_room_go_however_its_reader_ends(end: Callable[[Iterator[bytes], Path], None]) -> None:
    exports, places = exports_at_once(), list[Path]()

    def write(folder: Path) -> None:
        places.append(folder)
        folder.mkdir()
        (folder / "0.png").write_bytes(b"pixels")

    # More often than there is room for: none may keep it.
    for _ in range(5):
        pieces = archived(write, exports.held("ours"))
        end(pieces, places[-1])
        del pieces
        assert (places[-1].exists(), exports.now) == (False, 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_a_copy_that_breaks_off_leaves_nothing(error: type[BaseException]) -> None:
    exports, places = exports_at_once(), list[Path]()

    def write(folder: Path) -> None:
        places.append(folder)
        folder.mkdir()
        (folder / "0.png").write_bytes(b"pixels")
        raise error

    for _ in range(5):
        with pytest.raises(error):
            archived(write, exports.held("ours"))
        assert (places[-1].exists(), exports.now) == (False, 0)


def test_an_export_that_cannot_be_written_is_told_at_once_and_gives_its_room_back() -> None:
    exports = exports_at_once()

    def write(folder: Path) -> None:
        raise DatasetEmpty("the run has no image to export")

    for _ in range(3):
        with pytest.raises(DatasetEmpty):
            archived(write, exports.held("ours"))
    assert exports.now == 0
