"""Requests that a gateway refuses, raised as a client raises them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from fakes.access_keys import new_access_key
from fakes.gateway import fake_gateway
from fakes.problems import raise_problem


async def change_by_a_reader(folder: Path) -> None:
    """Ask for a change with a key that may only look."""
    async with fake_gateway(folder) as gateway:
        headers = {"authorization": f"Bearer {new_access_key(gateway.ledger, 'read')[1]}"}
        raise_problem(await gateway.http.delete("/v1/runs/none", headers=headers))


async def altered_link(folder: Path) -> None:
    """Follow a link whose signature is another's."""
    async with fake_gateway(folder) as gateway:
        new_access_key(gateway.ledger)
        raise_problem(await gateway.http.get("/v1/runs/x/report?expires=1&key-id=a&signature=b"))


async def refused_word(folder: Path) -> None:
    """Name a dataset with a word that the operator refuses."""
    words = folder / "words"
    words.write_text("gore", encoding="utf-8")
    async with fake_gateway(folder, policy_words_file=words) as gateway:
        raise_problem(await gateway.http.post("/v1/datasets", json={"name": "x", "classes": ["gore"]}))


async def full_store(folder: Path) -> None:
    """Store bytes on a disk without room."""
    _store_on(folder, errno.ENOSPC)


async def failed_disk(folder: Path) -> None:
    """Store bytes on a disk that cannot be synced."""
    _store_on(folder, errno.EIO)


def _store_on(folder: Path, code: int) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        BlobStore(str(folder)).put(b"some bytes")
