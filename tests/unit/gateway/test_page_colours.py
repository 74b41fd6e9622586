"""The colours of the reports: text can be read in light and dark, on every ground that it stands on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterpose_gateway import reports

CSS = Path(reports.__file__).parent / "templates" / "css"
LEAST = 4.5
"""Contrast of text (WCAG 2.2, 1.4.3)."""

GROUNDS = {
    "ink": ("bg", "card", "soft", "mark", "gone", "h1", "h2", "h3"),
    "muted": ("bg", "card", "soft"),
    "accent": ("bg", "card", "accent-soft", "soft"),
    "good": ("bg", "card", "good-soft"),
    "doubt": ("bg", "card", "doubt-soft"),
}


def palette(dark: bool) -> dict[str, tuple[int, int, int]]:
    """The variables of the style sheet in one colour scheme."""
    text = (CSS / "base.css").read_text(encoding="utf-8")
    light, _, rest = text.partition("@media (prefers-color-scheme: dark)")
    found = re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6})", light + (rest if dark else ""))
    return {name: (int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)) for name, code in found}


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [(c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("text", "ground"), [(text, on) for text, all_on in GROUNDS.items() for on in all_on]
)
def test_text_can_be_read_on_its_ground(dark: bool, text: str, ground: str) -> None:
    colours = palette(dark)
    assert contrast(colours[text], colours[ground]) >= LEAST


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)


def test_no_style_sheet_or_template_is_long() -> None:
    for path in CSS.parent.rglob("*"):
        if path.is_file():
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path
