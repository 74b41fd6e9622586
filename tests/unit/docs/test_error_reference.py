"""The error reference: a cause and a remedy for each code, on a current page."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.error_reference import EXPLANATIONS, reference_page
from counterpose_core.errors import error_classes

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"


def test_exactly_the_existing_codes_are_explained() -> None:
    assert list(EXPLANATIONS) == sorted(error_classes())


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_cause_and_remedy_are_sentences(code: str) -> None:
    for text in (EXPLANATIONS[code].cause, EXPLANATIONS[code].remedy):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), (
        "run: python -m counterpose_core.error_reference docs/reference/errors.md"
    )


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_the_page_has_a_section_for_each_code_with_its_status(code: str) -> None:
    _, _, section = reference_page().partition(f"\n## {code}\n")
    assert f"HTTP {error_classes()[code].status}, " in section.partition("\n## ")[0]
