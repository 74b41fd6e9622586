"""Tar shards of WebDataset, read member by member: nothing is unpacked, and a shard is never held whole.

Members in a row that share a key, the path up to the first dot of the name, are one sample: an image, its
label in ``.cls``, ``.json`` or ``.txt``, its caption in ``.json`` or in a ``.txt`` that is not the label, its
mask in ``.mask.png``. Any other longer ending is another field of the sample. Hidden members are passed over.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO

from pydantic import BaseModel, ValidationError

from counterpose_core.errors import (
    ImageTooLarge,
    ImageUndecodable,
    InvalidRequest,
    RequestError,
    ShardUnreadable,
)
from counterpose_core.image_folders import SUFFIXES, is_hidden
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.images.intake import LARGEST_FILE
from counterpose_gateway.imports.storage import LARGEST_TEXT, Sample, Storage, beside, class_of, refused
from counterpose_gateway.records.imports import NewShard

_IMAGE, _MASK = "image", "mask"
_KINDS = frozenset({_IMAGE, _MASK, ".cls", ".json", ".txt"})
_CAPTIONS = ("caption", "text", "prompt", "description", "title")
_LONGEST_NAME = 5
"""Words: no class of ImageNet-1k is called by more."""
_TELLS = 200
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


@dataclass
class _Field:
    """A member of a sample that is read; ``other`` is the name of a second one that may be meant as well."""

    name: str
    is_plain: bool
    content: bytes = b""
    error: RequestError | None = None
    other: str | None = None


class _Gathered:
    """The members of one sample so far: its image and its texts, by kind."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.fields: dict[str, _Field] = {}
        self.error: RequestError | None = None

    def has_own(self, kind: str, name: str, *, is_plain: bool) -> bool:
        """Whether the sample has a member of this kind that comes before this one.

        ``1.png`` comes before ``1.depth.png``, which is another field of the sample ``1``.
        """
        field = self.fields.get(kind)
        if field is None or (is_plain and not field.is_plain):
            return False
        if field.is_plain == is_plain:
            field.other = name
        return True

    def source(self, names: Sequence[str] | None, label_key: str) -> RawSource:
        """Return the image with its label.

        Raises:
            RequestError: it has none of both, or they are not what they should be.
        """
        if self.error is not None:
            raise self.error
        image, mask = self.fields.get(_IMAGE), self.fields.get(_MASK)
        if image is None:
            raise ImageUndecodable(f"{self.key!r} has no PNG, JPEG or WebP member")
        for kind, field in ((_IMAGE, image), (_MASK, mask)):
            if field is not None and field.error is not None:
                raise field.error
            if field is not None and field.other is not None:
                raise InvalidRequest(
                    f"{self.key!r} has two {kind}s, {field.name!r} and {field.other!r}; give the one to "
                    "leave out a longer ending, such as .other.png"
                )
        label, caption = self._told(names or (), label_key)
        return RawSource(
            filename=image.name,
            label=class_of(label, names),
            caption=caption,
            content=image.content,
            mask=None if mask is None else mask.content,
        )

    def _told(self, names: Sequence[str], label_key: str) -> tuple[object, str | None]:
        json_text = self._text(".json")
        said = {} if json_text is None else _object(self.key, json_text)
        caption = said.get("caption")
        if caption is not None and not isinstance(caption, str):
            raise InvalidRequest(f"the caption of {self.key!r} is no text")
        words, label = self._text(".txt"), self._text(".cls")
        if label is not None:
            return label, caption or words
        if label_key in said:
            return said[label_key], caption or words
        if words is None:
            keys = f", which has {', '.join(map(repr, said))[:_TELLS]}" if said else ""
            raise InvalidRequest(
                f"{self.key!r} has no label: no .cls, no .txt, and no {label_key!r} in a .json{keys}"
            )
        if words not in names and _is_caption(words, said):
            raise InvalidRequest(
                f"{self.key!r} has no label: its .txt is a caption; write labels to .cls, or give the import "
                "`classes`"
            )
        return words, caption

    def _text(self, kind: str) -> str | None:
        field = self.fields.get(kind)
        # Of two with longer endings, such as 1.left.json and 1.right.json, neither is the sample's own.
        if field is None or field.other is not None:
            return None
        if field.error is not None:
            raise field.error
        return _decoded(self.key, field.content)


def read_tar(
    opened: IO[bytes], start: int, path: str, names: Sequence[str] | None, label_key: str
) -> Iterator[Sample]:
    """Yield the samples of a tar from the byte ``start`` on, where a sample begins.

    Raises:
        ShardUnreadable: it is no tar, or ends early.
    """
    length = opened.seek(0, io.SEEK_END)
    opened.seek(start)
    shard = path.rpartition("/")[2]
    gathered: _Gathered | None = None
    try:
        with _opened(opened) as tar:
            while (member := _next(tar)) is not None:
                # The library keeps every member that it has met.
                tar.members.clear()  # type: ignore[attr-defined]
                is_passed_over = member.isdir() or any(map(is_hidden, PurePosixPath(member.name).parts))
                key, ending = _key(member.name)
                if gathered is not None and gathered.key != key and not is_passed_over:
                    yield _sample(gathered, shard, names, label_key, start + member.offset)
                    gathered = None
                _require_inside(member, start + tar.offset, length, path)
                if is_passed_over:
                    continue
                gathered = gathered or _Gathered(key)
                _gather(gathered, tar, member, ending, shard)
            end = start + tar.offset
    except (tarfile.TarError, EOFError) as error:
        if start and isinstance(error, tarfile.ReadError) and str(error) == "empty file":
            return
        raise ShardUnreadable(f"the shard {path!r} is no whole tar: {error}") from error
    if gathered is not None:
        yield _sample(gathered, shard, names, label_key, end)


@contextmanager
def _headers_read() -> Iterator[None]:
    """Call it a fault of the tar where the library fails on a header, as on a map of letters."""
    try:
        yield
    except (ValueError, IndexError, KeyError) as error:
        raise tarfile.ReadError(f"a header cannot be read ({error})") from error


def _require_inside(member: tarfile.TarInfo, end: int, length: int, path: str) -> None:
    """Refuse a member that is said to end behind the file: the library would walk there all the same."""
    if end >= length + tarfile.BLOCKSIZE:
        raise ShardUnreadable(
            f"the shard {path!r} ends before its member {member.name!r} of {member.size} bytes does; write "
            "the shard anew"
        )


def _opened(file: IO[bytes]) -> tarfile.TarFile:
    with _headers_read():
        return tarfile.open(fileobj=file, mode="r|", tarinfo=_Member)


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    with _headers_read():
        return tar.next()


def _sample(
    gathered: _Gathered, shard: str, names: Sequence[str] | None, label_key: str, following: int
) -> Sample:
    try:
        return Sample(gathered.source(names, label_key), following)
    except RequestError as error:
        return Sample(refused(f"{shard}/{gathered.key}", error), following)


def _gather(
    gathered: _Gathered, tar: tarfile.TarFile, member: tarfile.TarInfo, ending: str, shard: str
) -> None:
    fault = _fault(member)
    if fault is not None:
        gathered.error = gathered.error or InvalidRequest(fault)
        return
    suffix = "." + ending.rpartition(".")[2]
    kind, most = (_IMAGE, LARGEST_FILE) if suffix in SUFFIXES else (suffix, LARGEST_TEXT)
    if kind == _IMAGE and ending == f"{_MASK}{suffix}":
        kind = _MASK
    if kind not in _KINDS or gathered.has_own(kind, member.name, is_plain="." not in ending):
        return
    field = _Field(f"{shard}/{member.name.removeprefix('./')}", "." not in ending)
    if member.size > most:
        refusal = ImageTooLarge if kind in (_IMAGE, _MASK) else InvalidRequest
        field.error = refusal(f"{member.name!r} has {member.size} bytes, more than {most}")
    else:
        field.content = _content(tar, member)
    gathered.fields[kind] = field


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
    return f"{folder}{slash}{stem}", suffixes.lower()


def _is_caption(words: str, said: Mapping[str, object]) -> bool:
    """Whether the words of a .txt are a caption: the .json's own, or more than a class is called by."""
    captions = [text.split() for key in _CAPTIONS if isinstance(text := said.get(key), str)]
    phrases = words.replace(";", ",").replace("\n", ",").split(",")
    return words.split() in captions or any(len(phrase.split()) > _LONGEST_NAME for phrase in phrases)


def _decoded(key: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the text of {key!r} is not UTF-8") from error


def _object(key: str, data: str) -> dict[str, object]:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the .json of {key!r} is no JSON") from error
    if not isinstance(said, dict):
        raise InvalidRequest(f"the .json of {key!r} is no object")
    return said


INDEX = "wids-shard-index-v1"
LARGEST_INDEX = 64 << 20
MOST_LISTED = 250_000  # Each takes 800 bytes.
LARGEST_CLASSES = 4 << 20
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


class _Listed(BaseModel):
    url: str


class _Index(BaseModel):
    """An index as `widsindex` writes it; other fields are ignored."""

    shardlist: list[_Listed]


def find_shards(url: str, storage: Storage, listed: int) -> Iterator[NewShard]:
    """Yield the shards from the ``listed``-th on.

    Raises:
        InvalidRequest: the pattern or the index is of no form that is read.
        ShardUnreadable: the index is missing.
    """
    if url.lower().endswith(".json"):
        found: Iterator[str] = iter(_indexed(url, storage))
    elif url.lower().endswith(".tar"):
        found = expanded(url)
    else:
        raise InvalidRequest(
            f"{url!r} names no shards: write shard-{{000000..000099}}.tar, a .json index or one .tar, "
            "uncompressed",
            pointer="/url",
        )
    for number, path in enumerate(found):
        if number >= listed:
            yield NewShard(path=path, mark=path)


def class_names(url: str, storage: Storage) -> Sequence[str] | None:
    """Return the names in ``classes.json`` or ``classes.txt`` beside the shards, or None without them.

    Raises:
        InvalidRequest: the file is of another form.
    """
    data = storage.small_file(beside(url, "classes.json"), LARGEST_CLASSES)
    if data is not None:
        try:
            names = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(f"{beside(url, 'classes.json')!r} is no JSON") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidRequest(f"{beside(url, 'classes.json')!r} is not a JSON array of class names")
        return names
    data = storage.small_file(beside(url, "classes.txt"), LARGEST_CLASSES)
    if data is None:
        return None
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").strip().splitlines()]
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{beside(url, 'classes.txt')!r} is not UTF-8; save it as UTF-8") from error
    if "" in lines:
        # Left out, it would give each number behind it another class's name.
        raise InvalidRequest(
            f"line {lines.index('') + 1} of {beside(url, 'classes.txt')!r} names no class; leave none empty"
        )
    return lines


def expanded(url: str) -> Iterator[str]:
    """Yield the addresses that a pattern with ranges such as ``{000..099}`` stands for.

    Raises:
        InvalidRequest: a brace holds something else.
    """
    found = RANGE.search(url)
    if found is None:
        if "{" in url or "}" in url:
            raise InvalidRequest(
                f"{url!r} has a brace that holds no range; write {{000000..000099}}", pointer="/url"
            )
        yield url
        return
    first, last = int(found[1]), int(found[2])
    if first > last:
        raise InvalidRequest(f"the range {found[0]!r} of {url!r} is empty", pointer="/url")
    for number in range(first, last + 1):
        yield from expanded(f"{url[: found.start()]}{number:0{len(found[1])}d}{url[found.end() :]}")


def _indexed(url: str, storage: Storage) -> Iterator[str]:
    data = storage.small_file(url, LARGEST_INDEX)
    if data is None:
        raise ShardUnreadable(f"the index {url!r} does not exist")
    if data.count(b"{") > MOST_LISTED:
        raise InvalidRequest(
            f"{url!r} lists more than {MOST_LISTED} shards; write larger ones", pointer="/url"
        )
    try:
        index = _Index.model_validate_json(data)
    except ValidationError as error:
        raise InvalidRequest(
            f"{url!r} is no index of shards ({INDEX}): it needs a list `shardlist` of objects with a `url`",
            pointer="/url",
        ) from error
    for each in index.shardlist:
        yield each.url if "://" in each.url else beside(url, each.url)
