"""Exports that are sent: few copies at once, and each goes with its reader."""

from __future__ import annotations

from collections.abc import Iterator
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


def test_an_export_that_cannot_be_written_is_told_at_once_and_gives_its_room_back() -> None:
    exports = exports_at_once()

    def write(folder: Path) -> None:
        raise DatasetEmpty("the run has no image to export")

    for _ in range(3):
        with pytest.raises(DatasetEmpty):
            archived(write, exports.held("ours"))
    assert exports.now == 0
