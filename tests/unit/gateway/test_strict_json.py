"""Bodies are RFC 8259 JSON in UTF-8 with unique keys; anything else is refused with a reason."""

from __future__ import annotations

import json

import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.http.strict_json import MAX_KEYS, MAX_PARTS, read_json

GOOD = {"dataset": "demo", "seed": 3, "share": 0.5, "nested": [{"a": None}, {"a": True}], "text": "é猫🛷"}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_valid_json_is_parsed_unchanged(ascii_only: bool) -> None:
    assert read_json(json.dumps(GOOD, ensure_ascii=ascii_only).encode()) == GOOD


MILLION = 10**6
BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{'seed': 3}", "not valid JSON"),
    "a body cut off": (b'{"seed": 3', "not valid JSON"),
    "two bodies in one": (b'{"seed": 3}{"seed": 4}', "not valid JSON"),
    "a comma too many": (b'{"seed": 3,}', "not valid JSON"),
    "arrays nested 100,000 deep": (b"[" * 10**5 + b"]" * 10**5, "recursion depth"),
    "objects nested 100,000 deep": (b'{"a":' * 10**5 + b"1" + b"}" * 10**5, "values|recursion depth"),
    "objects nested 20,000 deep": (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "recursion depth"),
    "a million keys": (b'{"k":0' + b',"k":0' * MILLION + b"}", f"more than {MAX_PARTS} values"),
    "a million numbers": (b"[0" + b",0" * MILLION + b"]", f"more than {MAX_PARTS} values"),
    "more keys than any body has": (
        json.dumps({"a": {f"k{n}": n for n in range(MAX_KEYS + 1)}}).encode(),
        f"{MAX_KEYS + 1} keys, more than {MAX_KEYS}",
    ),
    "a key twice": (b'{"seed": 3, "dataset": "demo", "seed": 4}', "repeats the key 'seed'"),
    "a key twice with one value": (b'{"seed": 3, "seed": 3}', "repeats the key 'seed'"),
    "a key twice further in": (b'{"sources": [{"label": "a", "label": "b"}]}', "repeats the key 'label'"),
    "a key twice, once escaped": (b'{"seed": 3, "\\u0073eed": 4}', "repeats the key 'seed'"),
    "an integer of 5,000 digits": (b'{"seed": ' + b"9" * 5000 + b"}", "4300 digits"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "not valid JSON"),
    "UTF-16 with its mark": ("{}".encode("utf-16"), "can't decode byte"),
    "UTF-16, little end first": (json.dumps(GOOD).encode("utf-16-le"), "not valid JSON"),
    "UTF-16, big end first": (json.dumps(GOOD).encode("utf-16-be"), "not valid JSON"),
    "UTF-32": (json.dumps(GOOD).encode("utf-32-le"), "not valid JSON"),
    "Latin-1": ('{"text": "é"}'.encode("latin-1"), "can't decode byte"),
    "an overlong encoding": (b'{"text": "\xc0\xaf"}', "can't decode byte"),
}  # fmt: skip


@pytest.mark.fault("B49")
@pytest.mark.parametrize("kind", BAD)
def test_ambiguous_json_is_refused_with_a_reason(kind: str) -> None:
    body, reason = BAD[kind]
    with pytest.raises(InvalidRequest, match=reason) as refused:
        read_json(body)
    assert len(refused.value.detail) < 200
