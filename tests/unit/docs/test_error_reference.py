"""The error reference: a cause and a remedy for each code, on the page of errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from counterpose_core.errors import error_classes

DOCS = Path(__file__).parents[3] / "docs"
EXPLANATIONS = tomllib.loads((DOCS / "errors.toml").read_text(encoding="utf-8"))


def test_exactly_the_existing_codes_are_explained() -> None:
    assert list(EXPLANATIONS) == sorted(error_classes())


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_cause_and_remedy_are_sentences(code: str) -> None:
    assert list(EXPLANATIONS[code]) == ["cause", "remedy"]
    for text in EXPLANATIONS[code].values():
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_the_page_has_a_section_for_each_code_with_its_status(code: str) -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    _, _, section = page.partition(f"\n## {code}\n")
    assert f"HTTP {error_classes()[code].status}, " in section.partition("\n## ")[0]
