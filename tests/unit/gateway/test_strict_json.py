"""Bodies are JSON of RFC 8259 in UTF-8, with each key once; whatever else is refused with its reason."""

from __future__ import annotations

import json

import pytest

from faultline_core.errors import InvalidRequest
from faultline_gateway.strict_json import MOST_KEYS, MOST_PARTS, read_json

GOOD = {"dataset": "demo", "seed": 3, "share": 0.5, "nested": [{"a": None}, {"a": True}], "text": "é猫🛷"}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_json_is_read_as_it_is_written(ascii_only: bool) -> None:
    assert read_json(json.dumps(GOOD, ensure_ascii=ascii_only).encode()) == GOOD


MILLION = 10**6
BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{'seed': 3}", "no JSON"),
    "a body cut off": (b'{"seed": 3', "no JSON"),
    "two bodies in one": (b'{"seed": 3}{"seed": 4}', "no JSON"),
    "a comma too many": (b'{"seed": 3,}', "no JSON"),
    "arrays nested 100,000 deep": (b"[" * 10**5 + b"]" * 10**5, "nested too deeply"),
    "objects nested 100,000 deep": (b'{"a":' * 10**5 + b"1" + b"}" * 10**5, "parts|nested"),
    "objects nested 20,000 deep": (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "nested too deeply"),
    "a million keys": (b'{"k":0' + b',"k":0' * MILLION + b"}", f"more than {MOST_PARTS} parts"),
    "a million numbers": (b"[0" + b",0" * MILLION + b"]", f"more than {MOST_PARTS} parts"),
    "more keys than any body has": (
        json.dumps({"a": {f"k{n}": n for n in range(MOST_KEYS + 1)}}).encode(),
        f"more than {MOST_KEYS} keys",
    ),
    "a key twice": (b'{"seed": 3, "dataset": "demo", "seed": 4}', "'seed' stands twice"),
    "a key twice with one value": (b'{"seed": 3, "seed": 3}', "'seed' stands twice"),
    "a key twice further in": (b'{"sources": [{"label": "a", "label": "b"}]}', "'label' stands twice"),
    "a key twice, once escaped": (b'{"seed": 3, "\\u0073eed": 4}', "'seed' stands twice"),
    "NaN": (b'{"share": NaN}', "'NaN'"),
    "Infinity": (b'{"share": Infinity}', "'Infinity'"),
    "-Infinity": (b'{"share": [-Infinity]}', "'-Infinity'"),
    "a number beyond all floats": (b'{"share": 1e999}', "'1e999'"),
    "an integer of 5,000 digits": (b'{"seed": ' + b"9" * 5000 + b"}", "too many digits"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "no JSON"),
    "UTF-16 with its mark": ("{}".encode("utf-16"), "no UTF-8"),
    "UTF-16, little end first": (json.dumps(GOOD).encode("utf-16-le"), "no JSON"),
    "UTF-16, big end first": (json.dumps(GOOD).encode("utf-16-be"), "no JSON"),
    "UTF-32": (json.dumps(GOOD).encode("utf-32-le"), "no JSON"),
    "Latin-1": ('{"text": "é"}'.encode("latin-1"), "no UTF-8"),
    "an overlong encoding": (b'{"text": "\xc0\xaf"}', "no UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_body_that_two_readers_could_read_differently_is_refused_with_its_reason(kind: str) -> None:
    body, reason = BAD[kind]
    with pytest.raises(InvalidRequest, match=reason) as refused:
        read_json(body)
    assert len(refused.value.detail) < 200
