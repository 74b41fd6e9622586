"""Reading shards and lists of them from allowed addresses: this machine, object stores, the hub, HTTPS.

What a shard holds: images with their labels, and files that are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import fsspec
from fsspec.spec import AbstractFileSystem

from counterpose_core.contract.datasets import RejectedSource
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
from counterpose_gateway.imports.addresses import AllowedAddresses
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
