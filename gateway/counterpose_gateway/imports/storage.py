"""Reading shards and lists of them from allowed addresses: this machine, object stores, the hub, HTTPS.

What a shard holds: images with their labels, and files that are refused by name.

Addresses that datasets may be imported from: those that begin as the operator's list says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import fsspec
from fsspec.spec import AbstractFileSystem

from counterpose_core.contract.datasets import ImportCreate, Layout, RejectedSource
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    ImportRefused,
    InvalidRequest,
    RequestError,
    ShardUnreadable,
)
from counterpose_core.text.plain_text import strip_invisible
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.imports.guarded_https import HttpsFiles

BLOCK = 4 << 20
"""Bytes of one range that is read ahead from an object store."""

_VERSIONS = ("ETag", "etag", "blob_id", "mtime", "LastModified", "last_modified", "updated", "created", "ino")


class Storage:
    """What imports read; every address is checked against the operator's list."""

    def __init__(self, allowed: Sequence[str], *, https: HttpsFiles | None = None) -> None:
        self._allowed = AllowedAddresses(allowed)
        self._https = https
        self._systems: dict[str, AbstractFileSystem] = {}

    def stamp(self, url: str) -> str:
        """Return size and version of a file, which differ after a change.

        Raises:
            ShardUnreadable: it is missing or cannot be read.
            ImportRefused: the address is not allowed.
        """
        plain = self._allowed.require(url)
        with reading(url):
            if plain.startswith("https://"):
                return self._web().stamp(plain)
            system = self._system(plain)
            system.invalidate_cache()
            told = system.info(plain)
            if told.get("type") == "directory":
                raise FileNotFoundError(url)
            return " ".join([str(told.get("size")), *(str(told[key]) for key in _VERSIONS if key in told)])

    @contextmanager
    def open(self, url: str) -> Iterator[IO[bytes]]:
        """Open a file that can be read from any place; raises as `stamp` does."""
        plain = self._allowed.require(url)
        with reading(url):
            if plain.startswith("https://"):
                opened: Any = self._web().open(plain)
            else:
                opened = self._system(plain).open(plain, "rb", block_size=BLOCK, cache_type="readahead")
        with opened:
            yield opened

    def small_file(self, url: str, most: int) -> bytes | None:
        """Return the bytes of a file, or None if there is none; raises as `stamp` does.

        Raises:
            ShardUnreadable: it has more than ``most`` bytes.
        """
        plain = self._allowed.require(url)
        with reading(url):
            try:
                if plain.startswith("https://"):
                    with self._web().open(plain) as opened:
                        data = opened.read(most + 1)
                else:
                    with self._system(plain).open(plain, "rb") as opened:
                        data = opened.read(most + 1)
            except (FileNotFoundError, IsADirectoryError):
                return None
        if len(data) > most:
            raise ShardUnreadable(f"{url!r} has more than {most} bytes, too many for what it should be")
        return bytes(data)

    def folder(self, url: str) -> tuple[list[str], list[str]]:
        """Return the names of the folders and of the files in a folder, sorted; raises as `stamp` does."""
        plain = self._allowed.require(url)
        if plain.startswith("https://"):
            raise ImportRefused(
                f"{url!r}: folders cannot be listed over HTTPS; name tar or Parquet files", pointer="/url"
            )
        folders: list[str] = []
        files: list[str] = []
        with reading(url):
            system = self._system(plain)
            for entry in system.ls(plain.rstrip("/"), detail=True):
                name = str(entry["name"]).rstrip("/").rpartition("/")[2]
                # Object stores may list a folder in itself.
                if name and name != plain.rstrip("/").rpartition("/")[2]:
                    (folders if entry["type"] == "directory" else files).append(name)
        return sorted(folders), sorted(files)

    def _web(self) -> HttpsFiles:
        self._https = self._https or HttpsFiles()
        return self._https

    def _system(self, url: str) -> AbstractFileSystem:
        scheme = url.partition("://")[0]
        if scheme not in self._systems:
            try:
                # Listings are not kept: a shard that changed would look as it was.
                self._systems[scheme] = fsspec.filesystem(scheme, use_listings_cache=False)
            except (ImportError, ValueError) as error:
                raise ImportRefused(
                    f"{url!r}: this worker cannot read {scheme}:// ({error})", pointer="/url"
                ) from error
        return self._systems[scheme]


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Say which shard it is that cannot be read.

    Raises:
        ShardUnreadable: it is missing, or the storage failed.
    """
    try:
        yield
    except CounterposeError:
        raise
    except FileNotFoundError as error:
        raise ShardUnreadable(f"the shard {url!r} does not exist; restore it, or leave it out") from error
    except (OSError, TimeoutError) as error:
        raise ShardUnreadable(f"the shard {url!r} cannot be read: {error}") from error


LARGEST_TEXT = 1 << 20
"""Bytes of a label's, a caption's or an archive's own text."""


@dataclass(frozen=True)
class Sample:
    """An image, or a file that is refused; ``following`` is where in the shard the next one begins."""

    source: RawSource | RejectedSource
    following: int


def refused(filename: str, error: RequestError) -> RejectedSource:
    """Name a file that holds no image to take in."""
    return RejectedSource(
        filename=strip_invisible(filename)[:255], code=error.code, detail=error.detail
    )  # fmt: skip


def class_of(label: object, names: Sequence[str] | None) -> str:
    """Return the class that a shard's label stands for: a name, or a number with a name.

    Raises:
        ClassMapMismatch: the number has no name.
        InvalidRequest: it is neither.
    """
    if isinstance(label, str) and not _is_number(label):
        return label.strip()
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise InvalidRequest(f"the label {label!r} is neither a name nor a number")
    number = int(label)
    if names is None:
        # A digit in every caption and prompt would say nothing about the image.
        raise ClassMapMismatch(f"the label {number} is a number without a name; give the import `classes`")
    if not 0 <= number < len(names):
        raise ClassMapMismatch(
            f"the label {number} has no name: {len(names)} classes are numbered from 0 to {len(names) - 1}"
        )
    return names[number]


def _is_number(text: str) -> bool:
    stripped = text.strip()
    return stripped.isascii() and stripped.removeprefix("-").isdigit() and len(stripped) < 10


SETTING = "COUNTERPOSE_IMPORT_FROM"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_TAR = re.compile(r"\.(tar(\.\w+)?|t(gz|bz2|xz|zst))$", re.IGNORECASE)
_HUB = re.compile(r"^(hf://datasets/[^/@]+/[^/@]+)(@[^/]+)?(/.*)?$")


class AllowedAddresses:
    """The operator's list: beginnings of URLs, such as ``s3://bucket/`` or ``file:///data/``."""

    def __init__(self, beginnings: Sequence[str]) -> None:
        self._beginnings = tuple(beginnings)

    def require(self, url: str) -> str:
        """Return the URL, with its scheme in small letters.

        Raises:
            ImportRefused: no beginning on the list fits it.
            InvalidRequest: it is no URL, or has a part that is not read.
        """
        scheme, rest = _parts(url)
        plain = f"{scheme}://{rest}"
        if scheme == "file":
            plain = f"file://{_real(rest, url)}"
        if not any(_begins(plain, each) for each in self._beginnings):
            raise ImportRefused(
                f"{url!r} may not be imported from; add the beginning of the address to {SETTING} of gateway "
                f"and workers{self._told()}",
                pointer="/url",
            )
        return plain

    def _told(self) -> str:
        return f" (it has {', '.join(self._beginnings)})" if self._beginnings else " (it is empty)"


def layout_of(request: ImportCreate) -> Layout:
    """Return the layout that a request names, or the one that its URL tells."""
    if request.layout is not None:
        return request.layout
    path = request.url.rstrip("/").lower()
    if path.endswith(".json") or _TAR.search(path):
        return "webdataset"
    return "parquet" if path.startswith("hf://") or path.endswith(".parquet") else "image-folder"


def with_revision(url: str, revision: str | None) -> str:
    """Return the URL of a dataset on the Hugging Face hub at a revision.

    Raises:
        InvalidRequest: the URL is of another kind, or names a revision itself.
    """
    if revision is None:
        return url
    found = _HUB.match(url)
    if found is None or found[2]:
        raise InvalidRequest(
            f"a revision is for hf://datasets/owner/name, not for {url!r}; leave one of them out",
            pointer="/revision",
        )
    return f"{found[1]}@{revision.replace('/', '%2F')}{found[3] or ''}"


def beside(url: str, name: str) -> str:
    """Return the address of a file in the same folder."""
    return f"{url.rpartition('/')[0]}/{name}"


def _parts(url: str) -> tuple[str, str]:
    found = _SCHEME.match(url)
    if found is None:
        raise InvalidRequest(
            f"{url!r} is no URL; begin it with a scheme, such as s3:// or file://", pointer="/url"
        )
    scheme, rest = found[1].lower(), url[found.end() :]
    # Joined URLs open one file system within another; queries hold secrets, which the dataset would show.
    if "::" in url or any(mark in rest for mark in "?#\\") or not rest.isprintable():
        raise InvalidRequest(
            f"{url!r} has '::', '?', '#' or a character that is none of an address; give a plain URL",
            pointer="/url",
        )
    if "@" in rest.partition("/")[0]:
        raise InvalidRequest(
            "the URL holds a user name or password; give them to the workers instead", pointer="/url"
        )
    if ".." in rest.split("/"):
        raise InvalidRequest(f"{url!r} has '..'; write the whole path", pointer="/url")
    return scheme, rest


def _real(path: str, url: str) -> str:
    """Return where a path of this machine leads, links followed: the list says where that may be."""
    if not path.startswith("/"):
        raise InvalidRequest(f"{url!r} is not a whole path; write file:/// and then the path", pointer="/url")
    return str(Path(path).resolve()) + ("/" if path.endswith("/") else "")


def _begins(url: str, beginning: str) -> bool:
    if beginning.startswith("file://"):
        beginning = f"file://{Path(beginning[7:]).resolve()}"
    if not urlsplit(beginning).netloc and not beginning.startswith("file:///"):
        # A whole scheme, as "s3://".
        return url.startswith(beginning)
    # Up to a whole name: s3://photos does not allow s3://photos-of-others.
    return url == beginning.rstrip("/") or url.startswith(beginning.rstrip("/") + "/")
