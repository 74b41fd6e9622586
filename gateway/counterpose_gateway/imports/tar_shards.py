"""Tar shards of WebDataset, read member by member: nothing is unpacked, and a shard is never held whole.

Members in a row that share a key, the path up to the first dot of the name, are one sample: an image, its
label in ``.cls``, ``.json`` or ``.txt``, and its caption in ``.json`` or in a ``.txt`` that is not the label.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO

from counterpose_core.errors import (
    ImageTooLarge,
    ImageUndecodable,
    InvalidRequest,
    RequestError,
    ShardUnreadable,
)
from counterpose_gateway.images.folder import SUFFIXES, RawSource
from counterpose_gateway.images.intake import LARGEST_FILE
from counterpose_gateway.imports.samples import LARGEST_TEXT, Sample, class_of, refused

_LABELS = frozenset({".cls", ".json", ".txt"})
_EXTENDED = frozenset((
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
))  # fmt: skip


class _Member(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        """Refuse a long header before it is read: the library reads it whole."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > LARGEST_TEXT:
            raise ShardUnreadable(f"a header of the tar has {found.size} bytes; write the shard anew")
        return found


class _Gathered:
    """The members of one sample so far."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.image: tuple[str, bytes | None] | None = None
        self.texts: dict[str, bytes] = {}
        self.error: RequestError | None = None

    def source(self, names: Sequence[str] | None, label_key: str) -> RawSource:
        """Return the image with its label.

        Raises:
            RequestError: it has none of both, or they are not what they should be.
        """
        if self.error is not None:
            raise self.error
        if self.image is None:
            raise ImageUndecodable(f"{self.key!r} has no PNG, JPEG or WebP member")
        label, caption = self._told(label_key)
        filename, content = self.image
        return RawSource(filename=filename, label=class_of(label, names), caption=caption, content=content)

    def _told(self, label_key: str) -> tuple[object, str | None]:
        said = _object(self.key, self.texts[".json"]) if ".json" in self.texts else {}
        caption = said.get("caption")
        if caption is not None and not isinstance(caption, str):
            raise InvalidRequest(f"the caption of {self.key!r} is no text")
        words = _text(self.key, self.texts[".txt"]) if ".txt" in self.texts else None
        if ".cls" in self.texts:
            return _text(self.key, self.texts[".cls"]), caption or words
        if label_key in said:
            return said[label_key], caption or words
        if words is None:
            raise InvalidRequest(
                f"{self.key!r} has no label: no .cls, no .txt, and no {label_key!r} in a .json"
            )
        return words, caption


def read_tar(
    opened: IO[bytes], start: int, path: str, names: Sequence[str] | None, label_key: str
) -> Iterator[Sample]:
    """Yield the samples of a tar from the byte ``start`` on, where a sample begins.

    Raises:
        ShardUnreadable: it is no tar, or ends early.
    """
    opened.seek(start)
    shard = path.rpartition("/")[2]
    gathered: _Gathered | None = None
    try:
        with tarfile.open(fileobj=opened, mode="r|", tarinfo=_Member) as tar:
            while (member := tar.next()) is not None:
                # The library keeps every member that it has met.
                tar.members.clear()  # type: ignore[attr-defined]
                if member.isdir():
                    continue
                key, suffix = _key(member.name)
                if gathered is not None and gathered.key != key:
                    yield _sample(gathered, shard, names, label_key, start + member.offset)
                    gathered = None
                gathered = gathered or _Gathered(key)
                _gather(gathered, tar, member, suffix, shard)
            end = start + tar.offset
    except (tarfile.TarError, EOFError) as error:
        if start and isinstance(error, tarfile.ReadError) and str(error) == "empty file":
            return
        raise ShardUnreadable(f"the shard {path!r} is no whole tar: {error}") from error
    if gathered is not None:
        yield _sample(gathered, shard, names, label_key, end)


def _sample(
    gathered: _Gathered, shard: str, names: Sequence[str] | None, label_key: str, following: int
) -> Sample:
    try:
        return Sample(gathered.source(names, label_key), following)
    except RequestError as error:
        return Sample(refused(f"{shard}/{gathered.key}", error), following)


def _gather(
    gathered: _Gathered, tar: tarfile.TarFile, member: tarfile.TarInfo, suffix: str, shard: str
) -> None:
    fault = _fault(member)
    if fault is not None:
        gathered.error = gathered.error or InvalidRequest(fault)
    elif suffix in SUFFIXES and gathered.image is None:
        if member.size > LARGEST_FILE:
            gathered.error = ImageTooLarge(
                f"{member.name!r} has {member.size} bytes, more than {LARGEST_FILE}"
            )
        else:
            gathered.image = (f"{shard}/{member.name}", _content(tar, member))
    elif suffix in _LABELS:
        if member.size > LARGEST_TEXT:
            gathered.error = InvalidRequest(
                f"{member.name!r} has {member.size} bytes, more than {LARGEST_TEXT}"
            )
        else:
            gathered.texts[suffix] = _content(tar, member)


def _fault(member: tarfile.TarInfo) -> str | None:
    """Say why a member is refused, whatever it holds."""
    path, windows = PurePosixPath(member.name), PureWindowsPath(member.name)
    if path.is_absolute() or windows.anchor or ".." in windows.parts:
        return f"the member {member.name!r} has a path that leads out of the archive"
    if member.issym() or member.islnk():
        return f"the member {member.name!r} is a link to {member.linkname!r}; links are not followed"
    if not member.isfile() or member.issparse():
        return f"the member {member.name!r} is no plain file"
    return None


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = tar.extractfile(member)
    data = b"" if opened is None else opened.read()
    if len(data) != member.size:
        raise EOFError(f"{member.name!r} ends after {len(data)} of {member.size} bytes")
    return data


def _key(name: str) -> tuple[str, str]:
    folder, slash, file = name.rpartition("/")
    stem, _, suffixes = file.partition(".")
    return f"{folder}{slash}{stem}", "." + suffixes.rpartition(".")[2].lower()


def _text(key: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the text of {key!r} is not UTF-8") from error


def _object(key: str, data: bytes) -> dict[str, object]:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the .json of {key!r} is no JSON") from error
    if not isinstance(said, dict):
        raise InvalidRequest(f"the .json of {key!r} is no object")
    return said
