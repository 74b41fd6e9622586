"""Addresses that datasets may be imported from: those that begin as the operator's list says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from counterpose_core.contract.datasets import ImportCreate, Layout
from counterpose_core.errors import ImportRefused, InvalidRequest

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
