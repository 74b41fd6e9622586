"""Requests a minute: how units are spent and come back, what is remembered, and what the headers say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Scope

from counterpose_core.errors import RateLimited
from counterpose_gateway.http import rate_limits
from counterpose_gateway.http.rate_limits import CallerLimits, RateLimit, caller_of
from counterpose_gateway.settings import GatewaySettings


class Clock:
    """Shows the time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def from_address(host: str) -> Scope:
    """A request from an address."""
    return {"type": "http", "client": (host, 1234)}


def test_units_are_spent_at_once_and_come_back_evenly() -> None:
    clock = Clock()
    limit = RateLimit("requests", 6, clock)
    left = [limit.take("ann") for _ in range(7)]
    assert [each.remaining for each in left] == [5, 4, 3, 2, 1, 0, 0]
    assert [each.is_refused for each in left] == [False] * 6 + [True]
    assert (left[-1].seconds, limit.take("bob").remaining) == (10, 5)
    clock.now += 9.5
    assert limit.take("ann").seconds == 1
    assert limit.take("ann").is_refused
    clock.now += 0.5
    assert not limit.take("ann").is_refused
    assert limit.take("ann").is_refused


def test_the_headers_are_structured_fields_of_the_draft() -> None:
    standing = RateLimit("requests", 100, Clock()).take("ann")
    assert standing.fields == {
        "ratelimit-policy": '"requests";q=100;w=60',
        "ratelimit": '"requests";r=99;t=1',
    }


@given(st.integers(1, 50), st.lists(st.floats(0.0, 30.0), max_size=120))
def test_no_minute_serves_more_than_twice_the_quota_and_waiting_as_told_is_served(
    quota: int, pauses: list[float]
) -> None:
    clock = Clock()
    limit = RateLimit("requests", quota, clock)
    served: list[float] = []
    for pause in pauses:
        clock.now += pause
        standing = limit.take("ann")
        if standing.is_refused:
            clock.now += standing.seconds
            assert not limit.take("ann").is_refused
        served.append(clock.now)
    for each in served:
        # What was saved up, and what comes back meanwhile.
        assert sum(each <= at < each + 60 for at in served) <= 2 * quota


def test_only_the_latest_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "MOST_CALLERS", 10)
    limit = RateLimit("requests", 2, Clock())
    for number in range(50):
        limit.take(f"caller {number}")
    assert len(limit._full_at) == 10
    assert limit.take("caller 49").remaining == 0
    assert limit.take("caller 0").remaining == 1


def test_an_address_that_guessed_serves_only_holders_that_it_has_served() -> None:
    limits = CallerLimits(GatewaySettings(refused_keys_per_minute=2), Clock())
    office = from_address("192.0.2.7")
    limits.serve(office, "ann")
    for _ in range(2):
        limits.refuse(office)
    with pytest.raises(RateLimited, match=r"2 refused keys in a minute \(COUNTERPOSE_REFUSED_KEYS"):
        limits.refuse(office)
    limits.serve(office, "ann")
    with pytest.raises(RateLimited):
        limits.serve(office, "bob")
    limits.serve(from_address("192.0.2.8"), "bob")


def test_limits_of_0_are_none() -> None:
    limits = CallerLimits(GatewaySettings(requests_per_minute=0, refused_keys_per_minute=0), Clock())
    scope = from_address("192.0.2.7")
    for _ in range(1000):
        limits.refuse(scope)
        limits.serve(scope, "ann")
    assert "state" not in scope


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.7", "192.0.2.7/32"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_caller_is_an_ipv4_address_or_an_ipv6_network(host: str, caller: str) -> None:
    assert caller_of(from_address(host)) == caller
    assert caller_of({"type": "http", "client": None}) == ""
