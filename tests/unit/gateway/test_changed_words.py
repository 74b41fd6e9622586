"""The words that an edit changes, as captions of image pairs say them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from counterpose_gateway.methods.stress_test.report.captions import Segment
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.text import changed_words
from fakes.pages import text_of


def test_words_that_are_gone_are_told_without_a_second_preposition() -> None:
    gone = SimpleNamespace(
        caption=[Segment("a sled ", changed=False), Segment("with gifts", changed=True)], edited_caption=[]
    )
    template = TEMPLATES.from_string('{% from "parts/images.html.j2" import change %}{{ change(pair) }}')
    assert text_of(template.render(pair=gone)) == "gone: with gifts"


@pytest.mark.parametrize(
    ("caption", "said"),
    [
        ("a boat [in] the [fog]", "in the fog"),
        ("a [red] boat on the sand [at night]", "red … at night"),
        ("a boat", ""),
    ],
)
def test_changed_words_keep_the_word_between_them(caption: str, said: str) -> None:
    pieces = [Segment(text, changed=bool(at % 2)) for at, text in enumerate(re.split(r"[\[\]]", caption))]
    assert changed_words([piece for piece in pieces if piece.text]) == said
