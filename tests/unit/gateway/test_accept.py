"""Media ranges of an Accept header: which media types they admit, and how gladly."""

from __future__ import annotations

import time

import pytest

from counterpose_gateway.http.accept import weight_of

JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "weight"),
    [
        ("application/json", 1.0),
        ("Application/JSON", 1.0),
        ("application/json;q=0.5", 0.5),
        ("application/json;charset=utf-8 ; q=0.25", 0.25),
        ("text/html, application/json", 1.0),
        ("*/*", 1.0),
        ("application/*;q=0.3", 0.3),
        ("*/*;q=0.1, application/*;q=0.2", 0.2),
        ("application/json;q=0, */*", 0.0),
        ("application/*;q=0, */*", 0.0),
        ("text/html", 0.0),
        ("text/*", 0.0),
        ("*/json", 0.0),
        ("json", 0.0),
        ("application/json/x", 0.0),
        (",,;;", 0.0),
        ("application/json;q=9", 1.0),
        ("application/jsonl", 0.0),
    ],
)
def test_the_most_specific_range_decides(accept: str, weight: float) -> None:
    assert weight_of(JSON, accept) == weight


@pytest.mark.parametrize("accept", ["," * 16_000, "a/b;" * 4000, "*/*;q=" + "0" * 16_000, " " * 16_000 + "/"])
def test_a_long_header_is_read_quickly(accept: str) -> None:
    start = time.process_time()
    weight_of(JSON, accept)
    assert time.process_time() - start < 0.2
