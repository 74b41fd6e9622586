"""Published tokens in a folder or a zip archive: the class of each file, and the batches that are sent."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from counterpose_core.contract.token_files import MAX_FILES, MAX_TOKEN_BYTES, TokenFile
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.imagenet_hierarchy import class_names

MAX_MEMBERS = 20_000
PICKLED, BUNDLE = ".bin", ".safetensors"
BATCH_BYTES = 4_000_000
_NUMBER = re.compile(r"\d{1,6}")
_KIND = "counterpose-token"
_HEADER = 8
"""Bytes in front of a safetensors header that give its length."""


def token_batches(path: Path, classes: Sequence[str] | None = None) -> Iterator[list[TokenFile]]:
    """Read the tokens of a folder or a zip archive, in batches that one request takes.

    A file is called by its class's number, as ImageNet*'s ``0.bin`` to ``999.bin``, or by its class. Of
    ``.safetensors``, a bundle of ours says its class itself.

    Args:
        path: the folder, or the archive, which is read without unpacking it.
        classes: the classes by number; default: ImageNet-1k's.

    Raises:
        InvalidRequest: there is no token, two are of one class, one is too large, or a number has no class.
    """
    known = list(class_names().values()) if classes is None else classes
    named = dict[str, str]()
    batch, size = list[TokenFile](), 0
    for name, content in _files(path):
        class_name = _class_of(name, content, known)
        if (other := named.setdefault(class_name, name)) != name:
            raise InvalidRequest(
                f"{other!r} and {name!r} of {str(path)!r} are both of {class_name!r}; keep one"
            )
        encoded = base64.b64encode(content).decode("ascii")
        if batch and (len(batch) == MAX_FILES or size + len(encoded) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(TokenFile(class_name=class_name, content_base64=encoded))
        size += len(encoded)
    if not batch:
        raise InvalidRequest(f"{str(path)!r} has no file that ends in {PICKLED} or {BUNDLE}")
    yield batch


def read_token_classes(path: Path) -> list[str]:
    """Read classes by number: one a line, the first for 0.

    Raises:
        InvalidRequest: the file cannot be read.
    """
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"cannot read the classes in {str(path)!r}: {error}") from error


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_dir():
            yield from _of_folder(path)
        else:
            with zipfile.ZipFile(path) as archive:
                yield from _of_archive(archive)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InvalidRequest(
            f"{str(path)!r} is neither a folder nor a readable zip archive of tokens: {error}"
        ) from error


def _of_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.iterdir()):
        if file.suffix in (PICKLED, BUNDLE) and file.is_file():
            _require_small(file.name, file.stat().st_size)
            yield file.name, file.read_bytes()


def _of_archive(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InvalidRequest(f"the archive has {len(members)} files, more than {MAX_MEMBERS}")
    for member in members:
        place = PurePosixPath(member.filename)
        if place.suffix not in (PICKLED, BUNDLE) or place.name.startswith("."):
            continue
        # By the unpacked size, because a few bytes can expand to gigabytes; no more than it are unpacked.
        _require_small(place.name, member.file_size)
        yield place.name, archive.read(member)


def _require_small(name: str, size: int) -> None:
    if size > MAX_TOKEN_BYTES:
        raise InvalidRequest(f"{name!r} has {size} bytes, more than the {MAX_TOKEN_BYTES} of a token's file")


def _class_of(name: str, content: bytes, classes: Sequence[str]) -> str:
    stem = PurePosixPath(name).stem
    if name.endswith(BUNDLE) and (described := _described_class(name, content)) is not None:
        return described
    if not _NUMBER.fullmatch(stem):
        return stem
    if int(stem) >= len(classes) or not classes[int(stem)]:
        raise InvalidRequest(f"{name!r} has no class: only {len(classes)} classes are given")
    return classes[int(stem)]


def _described_class(name: str, content: bytes) -> str | None:
    """Return the class that a bundle of ours names; None of another's safetensors."""
    try:
        header = json.loads(content[_HEADER : _HEADER + int.from_bytes(content[:_HEADER], "little")])
        about = header.get("__metadata__") or {}
        if _KIND not in about:
            return None
        described: Mapping[str, object] = json.loads(about[_KIND])
        return str(described["class_name"])
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidRequest(
            f"{name!r} is not a token bundle of Counterpose, nor other safetensors"
        ) from error
