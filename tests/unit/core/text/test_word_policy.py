"""The operator's list of refused words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpose_core.text.word_policy import MOST_PHRASES, WordPolicy

POLICY = WordPolicy(["severed head", "Gore", "nazi"])


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a dog with a severed head", "severed head"),
        ("two  SEVERED\nheads", "severed head"),
        ("full of gore.", "Gore"),
        ("a \uff47\uff4f\uff52\uff45 film", "Gore"),
        ("nazis", "nazi"),
        ("a head, severed", None),
        ("gored by a bull", None),
        ("gorgeous", None),
        ("", None),
    ],
)
def test_a_phrase_is_found_by_its_words(text: str, phrase: str | None) -> None:
    assert POLICY.found(text) == phrase


def test_a_text_is_found_within_json_with_its_pointer() -> None:
    body = {"name": "x", "prompts": {"a/b": ["a dog", "gore"]}, "n": 3, "data": "gore " * 2000}
    assert POLICY.found_in(body) == ("/prompts/a~1b/1", "Gore")
    assert POLICY.found_in({"n": 3, "data": "gore " * 2000}) is None
    assert WordPolicy().found_in(body) is None


def test_deep_nesting_is_walked_without_recursion() -> None:
    body: object = "gore"
    for _ in range(5000):
        body = [body]
    found = POLICY.found_in(body)
    assert found is not None
    assert found[0] == "/0" * 5000


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_phrase_is_found_whatever_surrounds_it(before: str, after: str) -> None:
    assert POLICY.found(f"{before} severed head {after}") is not None


def test_a_file_has_a_phrase_a_line_and_remarks(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("severed head # also on coins\n\n# remark\nGore\nGore\n", encoding="utf-8")
    assert WordPolicy.read(file).phrases == ("severed head", "Gore")


TOO_MANY = b"\n".join(b"w%d" % number for number in range(MOST_PHRASES + 1))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"---\n", TOO_MANY])
def test_a_file_that_is_no_list_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"words\.txt|no word in it"):
        WordPolicy.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt"):
        WordPolicy.read(tmp_path / "none.txt")
