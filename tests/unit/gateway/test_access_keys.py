"""API keys of the ledger: how they are made, end, and are found."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpose_core.errors import Unauthorized
from counterpose_gateway.access.key_ring import KNOWN_SECONDS, MOST_KNOWN, Holder, KeyRing
from counterpose_gateway.ledger.access import Access
from counterpose_gateway.records.access_keys import SCOPES, AccessKey, id_in, new_key, successor

NOW = dt.datetime.now(dt.UTC)
HOUR = dt.timedelta(hours=1)
OWN = b"a-key-of-the-settings"


class Book:
    """Keys in memory, and how often they were asked for."""

    def __init__(self, *keys: AccessKey) -> None:
        self.keys = {key.id: key for key in keys}
        self.ended = set[str]()
        self.looks = 0

    def key(self, key_id: str) -> AccessKey | None:
        """Return a key."""
        self.looks += 1
        return self.keys.get(key_id)

    def has_ended(self, session: str) -> bool:
        """Whether a session was signed out."""
        self.looks += 1
        return session in self.ended

    def end_session(self, session: str) -> None:
        """Sign one out."""
        self.ended.add(session)

    def has_keys(self) -> bool:
        """Whether there is one."""
        return bool(self.keys)


class Clock:
    """Shows the time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_key_opens_itself_alone_and_is_not_kept() -> None:
    (key, whole), (other, _) = (new_key(name, SCOPES, NOW, None) for name in ("ci", "ann"))
    assert key.is_opened_by(whole)
    assert not other.is_opened_by(whole)
    assert not key.is_opened_by(whole[:-1])
    assert id_in(whole) == key.id
    assert whole not in repr(key)
    # The secret itself may hold underscores.
    assert whole.partition(f"{key.id}_")[2] not in str(vars(key))


@given(st.text(max_size=90))
def test_what_is_not_written_like_a_key_has_no_id(text: str) -> None:
    assert id_in(text) is None


def test_a_key_ends_at_its_time_and_when_it_is_revoked() -> None:
    key, _ = new_key("ci", SCOPES, NOW, NOW + HOUR)
    assert key.refusal(NOW) is None
    assert "ended at" in str(key.refusal(NOW + HOUR))
    assert "revoked at" in str(replace(key, revoked_at=NOW).refusal(NOW))


def test_the_key_before_goes_on_for_the_overlap_and_never_longer_than_before() -> None:
    endless, _ = new_key("ci", ("read",), NOW, None)
    ending, new, whole = successor(endless, NOW, HOUR, None)
    assert (ending.id, ending.expires_at) == (endless.id, NOW + HOUR)
    assert (new.name, new.scopes, new.expires_at) == ("ci", ("read",), None)
    assert new.is_opened_by(whole)
    short, _ = new_key("ci", SCOPES, NOW, NOW + HOUR / 2)
    assert successor(short, NOW, HOUR, HOUR)[0].expires_at == NOW + HOUR / 2


async def test_a_ring_knows_the_keys_of_the_settings_and_of_the_ledger() -> None:
    key, whole = new_key("ci", ("read",), NOW, None)
    ring = KeyRing([OWN], cast(Access, Book(key)))
    assert await ring.holder(OWN.decode()) == Holder("settings", SCOPES)
    assert await ring.holder(whole) == Holder(key.id, ("read",))
    for wrong in ("", "no", whole[:-1] + "~", whole.replace(key.id, "0" * 16)):
        with pytest.raises(Unauthorized, match="missing or unknown"):
            await ring.holder(wrong)


async def test_a_revoked_key_is_refused_once_the_ring_looks_again() -> None:
    key, whole = new_key("ci", SCOPES, NOW, None)
    book, clock = Book(key), Clock()
    ring = KeyRing([], cast(Access, book), clock)
    await ring.holder(whole)
    book.keys[key.id] = replace(key, revoked_at=NOW)
    clock.now += KNOWN_SECONDS
    await ring.holder(whole)
    assert book.looks == 1
    clock.now += 0.1
    with pytest.raises(Unauthorized, match=r"'ci' .* was revoked"):
        await ring.holder(whole)


async def test_guessed_ids_are_forgotten() -> None:
    key, whole = new_key("ci", SCOPES, NOW, None)
    book = Book(key)
    ring = KeyRing([], cast(Access, book))
    await ring.holder(whole)
    for number in range(MOST_KNOWN):
        with pytest.raises(Unauthorized):
            await ring.holder(f"cp_{number:016x}_{'a' * 43}")
    await ring.holder(whole)
    assert book.looks == MOST_KNOWN + 2


async def test_a_session_that_was_signed_out_is_known_here_at_once_and_elsewhere_soon() -> None:
    book, clock = Book(), Clock()
    here, elsewhere = (KeyRing([], cast(Access, book), clock) for _ in range(2))
    assert [await ring.has_ended("s") for ring in (here, elsewhere, here, elsewhere)] == [False] * 4
    assert book.looks == 2
    await here.end("s")
    assert [await ring.has_ended("s") for ring in (here, elsewhere)] == [True, False]
    clock.now += KNOWN_SECONDS + 0.1
    assert (await elsewhere.has_ended("s"), await elsewhere.has_ended("t")) == (True, False)
    assert KNOWN_SECONDS < 5
    without_ledger = KeyRing([b"own"])
    await without_ledger.end("s")
    assert not await without_ledger.has_ended("s")


async def test_callers_need_a_key_as_soon_as_one_was_made() -> None:
    book, clock = Book(), Clock()
    ring = KeyRing([], cast(Access, book), clock)
    assert not await ring.wants_key()
    key, _ = new_key("ci", SCOPES, NOW, NOW)
    book.keys[key.id] = key
    clock.now += KNOWN_SECONDS + 0.1
    assert await ring.wants_key()
    assert await KeyRing([OWN]).wants_key()
