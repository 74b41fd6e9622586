"""The soak's figures: growth after the first warm part, more open files, and the ledger's bytes an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from evaluation.load.report import LoadRow
from evaluation.load.soak import Sample, rows_of

N = 101
HOURS = 2.0


def samples(
    gateway_mb: Callable[[float], float] = lambda share: 150.0,
    gateway_files: Callable[[float], int] = lambda share: 20,
    item_bytes: Callable[[float], float] = lambda share: 5000.0,
) -> list[Sample]:
    """Samples of two hours; each function has the share of the time that has passed."""
    found, size = list[Sample](), 0.0
    for number in range(N):
        share = number / (N - 1)
        size += 100 * item_bytes(share)
        found.append(
            Sample(
                hours=HOURS * share,
                resident_mb=(gateway_mb(share), 130.0),
                open_files=(gateway_files(share), 10),
                ledger_bytes=round(size),
                items=100 * (number + 1),
            )
        )
    return found


def values(given: Sequence[Sample]) -> dict[str, LoadRow]:
    return {each.name: each for each in rows_of(given) if isinstance(each, LoadRow)}


def test_a_gateway_that_only_warms_up_keeps_every_target() -> None:
    found = values(samples(gateway_mb=lambda share: 150.0 - 50.0 * max(0.0, 0.25 - share)))
    assert all(each.met for each in found.values())
    assert found["growth of the gateway's memory"].value == pytest.approx(0.0, abs=1e-9)


def test_a_leak_is_a_growth_in_megabytes_an_hour() -> None:
    found = values(samples(gateway_mb=lambda share: 150.0 + 6.0 * HOURS * share))
    assert found["growth of the gateway's memory"].value == pytest.approx(6.0)
    assert found["growth of the gateway's memory"].met is False
    assert found["growth of the worker's memory"].met


def test_a_growth_of_seconds_is_shown_but_not_judged() -> None:
    short = [replace(each, hours=each.hours / 100) for each in samples(lambda share: 150.0 + share)]
    growth = values(short)["growth of the gateway's memory"]
    assert growth.value == pytest.approx(1.0 / (HOURS / 100))
    assert growth.met is None
    assert values(short)["change of the ledger's bytes an item between the halves"].met is None


def test_files_that_stay_open_are_counted() -> None:
    found = values(samples(gateway_files=lambda share: 20 + round(30 * share)))
    assert found["more open files of the gateway at the end"].met is False


def test_items_that_take_more_and_more_bytes_are_seen() -> None:
    found = values(samples(item_bytes=lambda share: 5000.0 * (1.0 + 0.3 * share)))
    assert found["change of the ledger's bytes an item between the halves"].met is False
