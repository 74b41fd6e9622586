"""What a replica knows of the work to come."""

from __future__ import annotations

import pytest

from counterpose_services.serving.forecast import Forecast


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def forecast(time: Time) -> Forecast:
    return Forecast(time)


def test_nothing_is_known_before_a_call_tells(forecast: Forecast) -> None:
    assert forecast.remaining() is None


def test_the_longest_run_counts_and_time_passes(time: Time, forecast: Forecast) -> None:
    forecast.tell(100.0)
    forecast.tell(40.0)
    time.now = 30.0
    assert forecast.remaining() == 70.0


def test_what_no_call_repeats_is_forgotten(time: Time, forecast: Forecast) -> None:
    forecast.tell(1000.0)
    time.now = 61.0
    forecast.tell(5.0)
    assert forecast.remaining() == 5.0
    time.now = 200.0
    assert forecast.remaining() is None


def test_the_busy_share_is_that_of_the_time_since_the_last_question(time: Time, forecast: Forecast) -> None:
    time.now = 2.0
    forecast.begin()
    forecast.begin()
    time.now = 6.0
    forecast.end()
    forecast.end()
    time.now = 8.0
    assert forecast.busy() == 0.5
    forecast.begin()
    time.now = 10.0
    assert forecast.busy() == 1.0
    time.now = 12.0
    assert forecast.busy() == 1.0
