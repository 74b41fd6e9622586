"""What a key opened ends with it, however it ends; and nothing else does."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from counterpose_core.errors import BackendUnavailable, Unauthorized
from counterpose_gateway.access import key_ring, key_watch
from counterpose_gateway.access.key_ring import OF_SETTINGS, Holder, KeyRing
from counterpose_gateway.access.key_watch import KeyWatch
from counterpose_gateway.records.access_keys import AccessKey, new_key, successor


class Keys:
    """The ledger's part, of two keys."""

    def __init__(self) -> None:
        self.known: dict[str, AccessKey] = {}
        for name in ("ours", "theirs"):
            key, _ = new_key(name, ("read",), dt.datetime.now(dt.UTC), None, "acme")
            self.known[key.id] = key
        self.ours, self.theirs = self.known
        self.is_away = False

    def key(self, key_id: str) -> AccessKey | None:
        """Return a key, unless the ledger is away."""
        if self.is_away:
            raise BackendUnavailable("the ledger is away")
        return self.known.get(key_id)

    def has_ended(self, session: str) -> bool:
        """No session was signed out."""
        return False


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    monkeypatch.setattr(key_watch, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(key_ring, "KNOWN_SECONDS", 0.0)
    return Keys()


@pytest.fixture
def watch(keys: Keys) -> KeyWatch:
    access: Any = keys
    return KeyWatch(KeyRing([], access))


async def opened(watch: KeyWatch, holder: Holder | None) -> str:
    async with watch.watched(holder):
        await asyncio.Event().wait()
    return "the end"


async def after_looks(task: asyncio.Task[str]) -> bool:
    """Whether it goes on though the key was looked at some times."""
    await asyncio.sleep(0.1)
    return not task.done()


def revoked(keys: Keys) -> None:
    keys.known[keys.ours] = replace(keys.known[keys.ours], revoked_at=dt.datetime.now(dt.UTC))


def over(keys: Keys) -> None:
    keys.known[keys.ours] = replace(keys.known[keys.ours], expires_at=dt.datetime.now(dt.UTC))


def rotated(keys: Keys) -> None:
    now = dt.datetime.now(dt.UTC)
    ending, new, _ = successor(keys.known[keys.ours], now, dt.timedelta(0), None)
    keys.known |= {ending.id: ending, new.id: new}


def erased(keys: Keys) -> None:
    del keys.known[keys.ours]


@pytest.mark.fault("T5")
@pytest.mark.parametrize("end", [revoked, over, rotated, erased], ids=lambda end: end.__name__)
async def test_all_that_a_key_opened_ends_with_it_and_another_s_goes_on(
    keys: Keys, watch: KeyWatch, end: Any
) -> None:
    # A page and a link are of their key, too.
    of_key = [Holder(keys.ours, tenant="acme"), Holder(keys.ours, tenant="acme", session="1")]
    ours = [asyncio.create_task(opened(watch, holder)) for holder in of_key]
    theirs = asyncio.create_task(opened(watch, Holder(keys.theirs, tenant="acme")))
    assert await after_looks(ours[0])
    end(keys)
    for task in ours:
        with pytest.raises(Unauthorized, match=f"{keys.ours} ended before"):
            await asyncio.wait_for(task, 60)
    # What comes later is watched anew.
    with pytest.raises(Unauthorized):
        await asyncio.wait_for(opened(watch, of_key[0]), 60)
    assert await after_looks(theirs)
    theirs.cancel()


async def test_a_client_that_leaves_is_no_key_that_ended(keys: Keys, watch: KeyWatch) -> None:
    task = asyncio.create_task(opened(watch, Holder(keys.ours)))
    assert await after_looks(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_ledger_that_is_away_ends_nothing(keys: Keys, watch: KeyWatch) -> None:
    task = asyncio.create_task(opened(watch, Holder(keys.ours)))
    assert await after_looks(task)
    keys.is_away = True
    assert await after_looks(task)
    keys.is_away = False
    revoked(keys)
    with pytest.raises(Unauthorized):
        await asyncio.wait_for(task, 60)


@pytest.mark.parametrize("holder", [None, Holder(OF_SETTINGS)])
async def test_who_needs_no_key_of_the_ledger_is_not_watched(watch: KeyWatch, holder: Holder | None) -> None:
    task = asyncio.create_task(opened(watch, holder))
    assert await after_looks(task)
    task.cancel()
